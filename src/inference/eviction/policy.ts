import type { Residency } from '../../native/addon-types.js';

/** Says how soon an expert goes of whose next use nothing is known. Pure. */
export interface EvictionPolicy {
  /** Whether predicted times of use count before these numbers, also those of the batches to come. */
  readonly usesForecast: boolean;
  /** Equal numbers: the most recently used goes first, otherwise the least recently used. */
  readonly newestFirst: boolean;
  /** Finite numbers by flat id, the largest goes first. */
  rank(residency: Residency): EvictionRanks;
}

export interface EvictionRanks {
  /** As long as the pass has not used the expert. */
  before: Float64Array;
  /** Once it has. */
  after: Float64Array;
}
