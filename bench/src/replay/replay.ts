/** Runs batches through an expert store. Each pass gets the same plan that the inference thread would make. */
import type { PassNeeds, TableNeeds } from '../../../dist/native/addon-types.js';

export interface ReplayPass {
  /** Flat ids of the experts that each MoE layer needs, ascending. */
  visits: readonly (readonly number[])[];
  /** What the pass's table tells of its layers. Empty without a table. */
  own: readonly TableNeeds[];
  /** What tables tell of the batch's later passes. */
  behind: readonly TableNeeds[];
}

export interface ReplayBatch<Pass extends ReplayPass = ReplayPass> {
  passes: readonly Pass[];
  /** What its tables tell while the batch waits in the queue. */
  forecast: readonly TableNeeds[];
}

export interface ReplayStore<Pass extends ReplayPass = ReplayPass> {
  run(pass: Pass, needs: PassNeeds): void;
}

/** Nothing is known of the link, so only certain needs are loaded ahead. */
const UNKNOWN_LINK = { linkBusy: 1, slotStay: Number.POSITIVE_INFINITY };

/** Without tables: nothing is prefetched, and the policy chooses the victims. */
export const NOTHING_KNOWN: PassNeeds = {
  own: [],
  behind: [],
  upcoming: [],
  control: false,
  ...UNKNOWN_LINK,
};

/**
 * `lookahead` batches after the running one have tables that are ready. Null means no tables, and therefore no
 * prefetches. Reads each batch from `batches` when it enters the queue, so that its tables may depend on earlier
 * batches.
 */
export function replay<Pass extends ReplayPass>(
  batches: Iterable<ReplayBatch<Pass>>,
  store: ReplayStore<Pass>,
  lookahead: number | null,
): void {
  for (const [batch, ...queue] of queued(batches, lookahead ?? 0)) {
    for (const pass of batch!.passes) {
      const { own, behind } = lookahead === null ? { own: [], behind: [] } : pass;
      const upcoming = queue.map(({ forecast }) => forecast);
      store.run(pass, { ...NOTHING_KNOWN, own, behind, upcoming });
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
