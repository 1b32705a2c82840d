/** P14 and P24: what REST adds to the engine, from bench/results/rest-overhead.json and streams.json. */
import { DASH, NOT_MEASURED, percent, times } from '../format.js';
import { type Recorded, recorded } from './recorded.js';
import { judged, type TargetRow } from './target-row.js';

export interface RestOverhead extends Recorded {
  clients: number;
  requests: number;
  rounds: number;
  /** One for each `--batch-wait-ms`. */
  runs: {
    batchWaitMs: number;
    /** Over the engine's own figure for the same request. */
    one: { overheadP50Ms: number };
    /** Over the median of the bare engine. */
    overBareP50Ms: number;
    /** Processor time of a request, in milliseconds. */
    many: { apiCpuMs: number; engineCpuMs: number };
    bareMany: { cpuMs: number };
    /** Of the bare engine's throughput at the same batch size. */
    throughputShare: number;
  }[];
}

export interface Streams extends Recorded {
  streams: number;
  rounds: number;
  runs: { clients: number; perSecond: number; barePerSecond: number; shareOfBare: number }[];
}

type Run = RestOverhead['runs'][number];

interface RestTarget {
  what: string;
  limit: string;
  within: (value: number) => boolean;
  value: (run: Run) => number;
  show: (value: number) => string;
}

const inMs = (value: number) => `${value.toFixed(2)} ms`;

const REST: readonly RestTarget[] = [
  {
    what: 'REST, one client: p50 over that of the bare engine',
    limit: '≤ 1.00 ms',
    within: (value) => value <= 1,
    value: ({ overBareP50Ms }) => overBareP50Ms,
    show: inMs,
  },
  {
    what: 'the same over the engine’s time of each request',
    limit: '≤ 1.00 ms',
    within: (value) => value <= 1,
    value: ({ one }) => one.overheadP50Ms,
    show: inMs,
  },
  {
    what: 'REST, many clients: processor time of a request outside of the engine’s passes and the clients',
    limit: '≤ 0.40 ms',
    within: (value) => value <= 0.4,
    value: ({ many, bareMany }) => many.apiCpuMs + many.engineCpuMs - bareMany.cpuMs,
    show: inMs,
  },
  {
    what: 'REST, many clients: throughput over that of the bare engine',
    limit: '≥ 90 %',
    within: (value) => value >= 0.9,
    value: ({ throughputShare }) => throughputShare,
    show: (value) => percent(value, 0),
  },
];

export function restTargets(found: RestOverhead | undefined): TargetRow[] {
  const command = recorded('node bench/scripts/rest/rest-overhead.mjs', found === undefined ? [] : [found]);
  return REST.map(({ what, limit, within, value, show }): TargetRow => {
    const row = { target: 'P14', what, limit, control: DASH, command };
    if (found === undefined) return { ...row, figure: DASH, verdict: NOT_MEASURED, inputs: DASH };
    return {
      ...row,
      figure: found.runs.map((run) => `${show(value(run))} (batches wait ${run.batchWaitMs} ms)`).join(', '),
      verdict: judged(found.runs.map(value), within),
      inputs: `${found.rounds} rounds of ${found.requests}`,
    };
  });
}

/** Streams at once that the target is of. */
const EIGHT = 8;

export function streamTargets(found: Streams | undefined, model: string, flags = ''): TargetRow[] {
  const row = {
    target: 'P24',
    inputs: found === undefined ? DASH : `${found.rounds} rounds of ${found.streams} streams`,
    command: recorded(`node bench/scripts/streams/streams.mjs${flags}`, found === undefined ? [] : [found]),
  };
  const [alone, eight] = [1, EIGHT].map((clients) => found?.runs.find((run) => run.clients === clients));
  const measured = alone !== undefined && eight !== undefined;
  const more = measured ? [eight.perSecond / alone.perSecond] : [];
  const shares = found?.runs.map(({ shareOfBare }) => shareOfBare) ?? [];
  return [
    {
      ...row,
      what: `${model} resident, tokens a second of ${EIGHT} streams at once over those of one`,
      limit: '≥ 1.70×',
      figure: measured ? times(more[0]) : DASH,
      verdict: judged(more, (value) => value >= 1.7),
      control: measured ? `bare engine: ${times(eight.barePerSecond / alone.barePerSecond)}` : DASH,
    },
    {
      ...row,
      what: `${model} resident, streamed tokens a second over those of the bare engine`,
      limit: '≥ 95 %',
      figure:
        found === undefined
          ? DASH
          : found.runs.map(({ clients, shareOfBare }) => `${clients}: ${percent(shareOfBare, 0)}`).join(', '),
      verdict: judged(shares, (value) => value >= 0.95),
      control: DASH,
    },
  ];
}
