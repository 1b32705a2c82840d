import type { Residency } from '../../native/addon-types.js';

/** Ranks the experts whose next use no forecast predicts. Pure. */
export interface EvictionPolicy {
  /** Whether forecasts of next use take precedence over these numbers, including those of queued batches. */
  readonly usesForecast: boolean;
  /** Whether the most recently used of equal experts is evicted first; otherwise the least recently used. */
  readonly newestFirst: boolean;
  /**
   * Returns finite numbers by flat id. The largest is evicted first. `known` is the number of coming visits that tables
   * tell of; policies with a forecast rank what comes after them, in visits from now.
   */
  rank(residency: Residency, known: number): EvictionRanks;
}

export interface EvictionRanks {
  /** Until the pass has used the expert. */
  before: Float64Array;
  /** After the pass has used the expert. */
  after: Float64Array;
  /** After the expert's layer has run without using it; `before` when absent. */
  unneeded?: Float64Array;
}
