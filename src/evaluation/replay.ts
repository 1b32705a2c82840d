/** Runs batches through an expert store, with a plan for each pass as the inference thread makes it. */
import type { EvictionPolicy } from '../inference/eviction/policy.js';
import { NeedCalibration } from '../inference/need-calibration.js';
import { correctedPass, correctedVisits, planPass } from '../inference/pass-planner.js';
import type { Residency, ResidencyPlan } from '../native/addon-types.js';
import type { ExpectedVisit } from '../predictor/expected-visits.js';

export interface ReplayPass {
  /** Flat ids that each MoE layer needs, ascending. */
  visits: readonly (readonly number[])[];
  /** What the pass's table says of its layers; empty without one. */
  own: readonly ExpectedVisit[];
  /** What tables say of the later passes of the batch. */
  behind: readonly ExpectedVisit[];
}

export interface ReplayBatch<Pass extends ReplayPass = ReplayPass> {
  passes: readonly Pass[];
  /** What its tables say while it waits in the queue. */
  forecast: readonly ExpectedVisit[];
}

export interface ReplayStore<Pass extends ReplayPass = ReplayPass> {
  residency(): Residency;
  run(pass: Pass, plan: ResidencyPlan | null): void;
}

export interface ReplayRule {
  policy: EvictionPolicy;
  /** Batches whose tables wait behind the running one; null: there are no tables, and nothing is prefetched. */
  lookahead: number | null;
  /** False: tables decide what goes, but nothing is loaded before a layer needs it. */
  prefetch?: boolean;
}

const NO_LOADS = new Uint32Array();

/** Batches are taken as they enter the queue: tables that learn from what ran are made then. */
export function replay<Pass extends ReplayPass>(
  batches: Iterable<ReplayBatch<Pass>>,
  store: ReplayStore<Pass>,
  rule: ReplayRule,
): void {
  const replayed = new Replay(store, rule);
  for (const [batch, ...queue] of queued(batches, rule.lookahead ?? 0)) replayed.run(batch!, queue);
}

/** One store under one rule, batch after batch. */
class Replay<Pass extends ReplayPass> {
  readonly #store: ReplayStore<Pass>;
  readonly #rule: ReplayRule;
  readonly #calibration: NeedCalibration;

  constructor(store: ReplayStore<Pass>, rule: ReplayRule) {
    this.#store = store;
    this.#rule = rule;
    this.#calibration = new NeedCalibration(store.residency().state.length);
  }

  /** `queue`: the batches behind it whose tables are there, the next one first. */
  run({ passes }: ReplayBatch<Pass>, queue: readonly ReplayBatch[]): void {
    const { policy, lookahead, prefetch = true } = this.#rule;
    const { slots, state } = this.#store.residency();
    const everything = slots >= state.length;
    for (const pass of passes) {
      const upcoming = queue.map(({ forecast }) => correctedVisits(forecast, this.#calibration));
      const plan = () => {
        if (everything) return null;
        const known = lookahead === null ? { own: [], behind: [] } : pass;
        const residency = this.#store.residency();
        const planned = planPass(correctedPass(known, this.#calibration), upcoming, { residency, policy });
        return prefetch ? planned : { ...planned, loads: NO_LOADS };
      };
      this.#store.run(pass, plan());
      pass.own.forEach((visit, layer) => {
        const needed = new Uint8Array(visit.need.length);
        for (const id of pass.visits[layer] ?? []) needed[id - visit.firstId] = 1;
        this.#calibration.learn(visit, needed);
      });
    }
  }
}

/** Each batch with those behind it in the queue. */
function* queued<Batch>(batches: Iterable<Batch>, lookahead: number): Generator<Batch[]> {
  const window: Batch[] = [];
  for (const batch of batches) {
    window.push(batch);
    if (window.length <= lookahead) continue;
    yield window;
    window.shift();
  }
  for (; window.length > 0; window.shift()) yield window;
}
