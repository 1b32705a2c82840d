/** P20 of a trained decoder, and P21: its prompt where it does not fit, from bench/results/eviction.json. */
import { DASH, NOT_MEASURED, percent, times } from '../format.js';
import { type Recorded, recorded } from './recorded.js';
import { judged, type TargetRow } from './target-row.js';

interface Phase {
  ms: number;
  bytes: number;
  needed: number;
  hits: number;
}

export interface Eviction extends Recorded {
  pack: string;
  prompt: number;
  slotBytes: number;
  /** Of the resident run: time, and bytes of the experts that the chunk needs, each once. */
  chunks: { ms: number; bytes: number }[];
  rows: {
    budget: string;
    bytesPerSecond: number;
    rules: { rule: string; prefill: Phase; decode: Phase }[];
  }[];
  /** Generated tokens. */
  steps: number;
}

const NONE = 'none';
const KNOWN = 'known';
const CONTROL = 'lru';

/** Time over that of computing alone or of one read of the needed experts, whichever is longer, chunk by chunk. */
function overBound({ chunks, rows }: Eviction, rule: string): number[] {
  return rows.flatMap(({ bytesPerSecond, rules }) => {
    const bound = chunks.reduce(
      (sum, { ms, bytes }) => sum + Math.max(ms, (1000 * bytes) / bytesPerSecond),
      0,
    );
    return rules.filter((own) => own.rule === rule).map(({ prefill }) => prefill.ms / bound);
  });
}

function reads({ slotBytes, rows }: Eviction, rule: string): number[] {
  return rows.flatMap(({ rules }) =>
    rules
      .filter((own) => own.rule === rule)
      .map(({ prefill: { bytes, needed } }) => bytes / (needed * slotBytes)),
  );
}

function commandOf(found: Eviction | undefined): string {
  return recorded(
    'node bench/scripts/eviction/eviction.mjs --pack DIR --text FILE',
    found === undefined ? [] : [found],
  );
}

export function decodeHitsTarget(found: Eviction | undefined): TargetRow {
  const row = {
    target: 'P20',
    what: 'the same of the bundled decoder, trained; a horizon of four tokens, which drafts would give, was not measured',
    limit: '≥ 70 %',
    command: commandOf(found),
    control: DASH,
  };
  if (found === undefined) return { ...row, figure: DASH, verdict: NOT_MEASURED, inputs: DASH };
  const rows = found.rows.flatMap(({ budget, rules }) => {
    const hits = (rule: string) => {
      const decode = rules.find((own) => own.rule === rule)?.decode;
      return decode === undefined ? Number.NaN : decode.hits / decode.needed;
    };
    const own = { budget, lru: hits(CONTROL), none: hits(NONE), known: hits(KNOWN) };
    return own.known > own.lru ? [own] : [];
  });
  const share = ({ lru, none, known }: (typeof rows)[number]) => (none - lru) / (known - lru);
  return {
    ...row,
    figure: rows
      .map((own) => {
        const hits = `${percent(own.lru)} to ${percent(own.none)}, known ${percent(own.known)}`;
        return `${found.pack} ${own.budget}: ${percent(share(own), 0)} (${hits})`;
      })
      .join('; '),
    verdict: judged(rows.map(share), (value) => value >= 0.7),
    inputs: String(found.steps),
  };
}

export function prefillTargets(found: Eviction | undefined): TargetRow[] {
  const command = commandOf(found);
  const kinds = [
    {
      what: 'reads of each needed expert in a chunk of the prompt; above 1 only with prefetches',
      most: 1.05,
      valuesOf: reads,
    },
    {
      what: 'time of the prompt over the longer of computing and one read of the needed experts, chunk by chunk',
      most: 1.15,
      valuesOf: overBound,
    },
  ];
  return kinds.map(({ what, most, valuesOf }): TargetRow => {
    const row = { target: 'P21', what, limit: `≤ ${most.toFixed(2)}×`, command };
    if (found === undefined)
      return { ...row, figure: DASH, verdict: NOT_MEASURED, inputs: DASH, control: DASH };
    const shown = (rule: string) =>
      valuesOf(found, rule)
        .map((value, at) => `${found.rows[at]!.budget} ${times(value)}`)
        .join(', ');
    return {
      ...row,
      figure: `${found.pack} ${shown(NONE)}`,
      verdict: judged(valuesOf(found, NONE), (value) => value <= most),
      inputs: String(found.prompt),
      control: `${CONTROL}: ${shown(CONTROL)}`,
    };
  });
}
