/** Runs batches through an expert store, with a plan for each pass as the inference thread makes it. */
import type { EvictionPolicy } from '../inference/eviction/index.js';
import { type ExpectedVisit, planResidency } from '../inference/residency-planner.js';
import type { Residency, ResidencyPlan } from '../native/addon-types.js';
import type { StoreSimulation } from './store-simulation.js';

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
  foreseen: readonly ExpectedVisit[];
}

export interface ReplayStore<Pass extends ReplayPass = ReplayPass> {
  residency(): Residency;
  run(pass: Pass, plan: ResidencyPlan | null): void;
}

export interface ReplayRule {
  policy: EvictionPolicy;
  /** Batches whose tables wait behind the running one; null: nothing is foreseen, and nothing prefetched. */
  lookahead: number | null;
}

export function replay<Pass extends ReplayPass>(
  batches: readonly ReplayBatch<Pass>[],
  store: ReplayStore<Pass>,
  { policy, lookahead }: ReplayRule,
): void {
  batches.forEach(({ passes }, turn) => {
    const upcoming =
      lookahead === null
        ? []
        : batches.slice(turn + 1, turn + 1 + lookahead).flatMap(({ foreseen }) => foreseen);
    for (const pass of passes) {
      const residency = store.residency();
      const own = lookahead === null ? [] : pass.own;
      const visits = lookahead === null ? [] : [...own, ...pass.behind, ...upcoming];
      const everything = residency.slots >= residency.state.length;
      store.run(
        pass,
        everything ? null : planResidency({ visits, passVisits: own.length, residency, policy }),
      );
    }
  });
}

export function simulated(store: StoreSimulation): ReplayStore {
  return {
    residency: () => store.residency(),
    run(pass, plan) {
      store.startPass(plan);
      for (const ids of pass.visits) store.visit(ids);
    },
  };
}
