/** The cost of an answer in experts. `loaded` counts experts that were not resident when first needed. */
export interface ExpertCost {
  needed: number;
  resident: number;
  prefetched: number;
  late: number;
  on_demand: number;
  /** Computed by an expert peer. */
  peer: number;
  /** Computed by the CPU, where the device is a GPU. */
  cpu: number;
  loaded: number;
  /** Bytes moved for this request's experts; an expert shared with another request of the batch counts for both. */
  bytes: number;
  stall_ms: number;
  /** Routings that a table predicted. A routing is one token sent to one of its experts in a MoE layer. */
  predicted: number;
  /**
   * Predicted routings whose expert was the table's first entry, or among its first three. Present for models that
   * choose one expert.
   */
  hits_top1?: number;
  hits_top3?: number;
  /**
   * Predicted routings whose expert was among the first k entries, or the first 2k. Present for models with k > 1.
   */
  hits_top_k?: number;
  hits_top_2k?: number;
}

/** `topK` is the number of experts that the model's routers choose for a token. */
export function noCost(topK: number): ExpertCost {
  return {
    needed: 0,
    resident: 0,
    prefetched: 0,
    late: 0,
    on_demand: 0,
    peer: 0,
    cpu: 0,
    loaded: 0,
    bytes: 0,
    stall_ms: 0,
    predicted: 0,
    ...hitFields(topK, { narrow: 0, wide: 0 }),
  };
}

/** Returns the hits under field names that depend on topK: see `recallWidths` of src/forecast/hit-ranks.ts. */
export function hitFields(topK: number, { narrow, wide }: { narrow: number; wide: number }) {
  return topK === 1 ? { hits_top1: narrow, hits_top3: wide } : { hits_top_k: narrow, hits_top_2k: wide };
}
