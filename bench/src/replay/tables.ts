/** Recorded batches with the tables that a kind of prediction would have made for them. */
import type { ReplayBatch, ReplayPass } from '../../../dist/evaluation/replay.js';
import type { ExpectedVisit } from '../../../dist/predictor/expected-visits.js';
import { cyclicPermutation } from '../../../dist/predictor/functions/shuffled.js';
import { randomOf } from '../../../dist/predictor/random.js';
import {
  PHASES,
  type Phase,
  type RecordedBatch,
  type RecordedPass,
  type RoutingTrace,
} from './routing-trace.js';
import { type Predictor, VisitHistory } from './visit-history.js';

export const TABLES = ['true', 'shuffled', 'repeat', 'frequency', 'transition'] as const;
/** `true`: the recorded routing. `shuffled`: the same, with the experts of each layer renamed. */
export type TableKind = (typeof TABLES)[number];

export type TracedPass = RecordedPass & ReplayPass;

type Forecaster = (pass: RecordedPass) => ExpectedVisit[];

const NOTHING = { own: [], behind: [] };

/** For rules without tables. */
export function withoutTables({ batches }: RoutingTrace): ReplayBatch<TracedPass>[] {
  return batches.map(({ passes }) => ({
    passes: passes.map((pass) => ({ ...pass, ...NOTHING })),
    forecast: [],
  }));
}

/**
 * Batches in the order in which they enter a queue of `lookahead` batches behind the running one. The table of a batch
 * is made on entry and does not change: a predicted table knows only the batches that have run by then.
 */
export function* withTables(
  trace: RoutingTrace,
  kind: TableKind,
  lookahead: number,
): Generator<ReplayBatch<TracedPass>> {
  if (kind === 'true' || kind === 'shuffled') {
    const forecast = kind === 'true' ? exactly(trace) : renamed(trace);
    for (const batch of trace.batches) yield tabled(batch, forecast);
    return;
  }
  const histories = new Histories(trace, lookahead);
  for (const [at, batch] of trace.batches.entries()) {
    const ran = trace.batches[at - lookahead - 1];
    if (ran !== undefined) histories.learn(ran);
    yield tabled(batch, histories.forecast(kind));
  }
}

function tabled({ passes }: RecordedBatch, forecast: Forecaster): ReplayBatch<TracedPass> {
  const tables = passes.map(forecast);
  return {
    passes: passes.map((pass, i) => ({
      ...pass,
      own: tables[i]!,
      behind: tables.slice(i + 1).flat(),
    })),
    forecast: tables.flat(),
  };
}

function exactly({ experts }: RoutingTrace): Forecaster {
  return ({ visits }) =>
    visits.map((ids) =>
      certain(firstOf(ids, experts), experts, (need) => {
        for (const id of ids) need[id % experts] = 1;
      }),
    );
}

/** As many experts of each layer as are needed, but different ones. */
function renamed({ experts, layers }: RoutingTrace): Forecaster {
  const random = randomOf(1);
  const names = layers.map(() => cyclicPermutation(experts, random));
  return ({ visits }) =>
    visits.map((ids) => {
      const firstId = firstOf(ids, experts);
      return certain(firstId, experts, (need) => {
        for (const id of ids) need[names[firstId / experts]![id % experts]!] = 1;
      });
    });
}

/** A visit whose chances are computed on demand: those of a long trace would fill the memory. */
function certain(firstId: number, experts: number, fill: (need: Float32Array) => void): ExpectedVisit {
  return {
    firstId,
    get need() {
      const need = new Float32Array(experts);
      fill(need);
      return need;
    },
  };
}

function firstOf(ids: readonly number[], experts: number): number {
  return Math.floor(ids[0]! / experts) * experts;
}

/**
 * History of each layer, separately for prompts and generations: a prompt's turn needs the experts of all its tokens.
 */
class Histories {
  readonly #experts: number;
  readonly #of: Record<Phase, VisitHistory[]>;

  constructor({ layers, experts }: RoutingTrace, lookahead: number) {
    this.#experts = experts;
    const [prefill, decode] = PHASES.map(() => layers.map(() => new VisitHistory(experts, lookahead + 1)));
    this.#of = { prefill: prefill!, decode: decode! };
  }

  learn({ passes }: RecordedBatch): void {
    for (const { phase, visits } of passes) {
      for (const ids of visits) {
        const firstId = firstOf(ids, this.#experts);
        this.#of[phase][firstId / this.#experts]!.learn(ids.map((id) => id - firstId));
      }
    }
  }

  /** The layer's turn is known to come; its experts are not known. */
  forecast(predictor: Predictor): Forecaster {
    return ({ phase, visits }) =>
      visits.map((ids) => {
        const firstId = firstOf(ids, this.#experts);
        return { firstId, need: this.#of[phase][firstId / this.#experts]!.chances(predictor) };
      });
  }
}
