/** Runs batches through an expert store. Each pass gets the same plan that the inference thread would make. */
import type { EvictionPolicy } from '../../../dist/inference/eviction/policy.js';
import { NeedCalibration } from '../../../dist/inference/need-calibration.js';
import { correctedPass, correctedVisits, planPass } from '../../../dist/inference/pass-planner.js';
import { PlanBuffers } from '../../../dist/inference/plan-buffers.js';
import { UNKNOWN_LINK } from '../../../dist/inference/residency-planner.js';
import type { Residency, ResidencyPlan } from '../../../dist/native/addon-types.js';
import type { ExpectedVisit } from '../../../dist/predictor/expected-visits.js';

export interface ReplayPass {
  /** Flat ids of the experts that each MoE layer needs, ascending. */
  visits: readonly (readonly number[])[];
  /** Expected visits of the pass's own layers, from its table. Empty without a table. */
  own: readonly ExpectedVisit[];
  /** Expected visits of the batch's later passes, from their tables. */
  behind: readonly ExpectedVisit[];
}

export interface ReplayBatch<Pass extends ReplayPass = ReplayPass> {
  passes: readonly Pass[];
  /** Expected visits that its tables give while the batch waits in the queue. */
  forecast: readonly ExpectedVisit[];
}

export interface ReplayStore<Pass extends ReplayPass = ReplayPass> {
  residency(): Residency;
  run(pass: Pass, plan: ResidencyPlan | null): void;
}

export interface ReplayRule {
  policy: EvictionPolicy;
  /** Batches after the running one whose tables are ready. Null means no tables, and therefore no prefetches. */
  lookahead: number | null;
}

/** Reads each batch from `batches` when it enters the queue, so that its tables may depend on earlier batches. */
export function replay<Pass extends ReplayPass>(
  batches: Iterable<ReplayBatch<Pass>>,
  store: ReplayStore<Pass>,
  { policy, lookahead }: ReplayRule,
): void {
  const { slots, state } = store.residency();
  const calibration = new NeedCalibration();
  const buffers = new PlanBuffers(state.length);
  const plan = (pass: Pass, queue: readonly ReplayBatch[]): ResidencyPlan | null => {
    if (slots >= state.length) return null;
    const known = correctedPass(lookahead === null ? { own: [], behind: [] } : pass, calibration);
    const upcoming = queue.map(({ forecast }) => correctedVisits(forecast, calibration));
    return planPass(known, upcoming, { residency: store.residency(), policy, link: UNKNOWN_LINK }, buffers);
  };
  for (const [batch, ...queue] of queued(batches, lookahead ?? 0)) {
    for (const pass of batch!.passes) {
      store.run(pass, plan(pass, queue));
      pass.own.forEach((visit, layer) => {
        const needed = new Uint8Array(visit.need.length);
        for (const id of pass.visits[layer] ?? []) needed[id - visit.firstId] = 1;
        calibration.learn(visit, needed);
      });
    }
  }
}

/** Yields each batch with the batches after it in the queue. */
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
