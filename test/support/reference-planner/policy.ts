import type { Residency } from '../../../src/native/addon-types.js';
import type { PlannedVisit } from './planned-visit.js';

/** Ranks the experts whose next use no forecast predicts. Pure. */
export interface EvictionPolicy {
  /** Whether forecasts of next use take precedence over these numbers, including those of queued batches. */
  readonly usesForecast: boolean;
  /** Whether the most recently used of equal experts is evicted first; otherwise the least recently used. */
  readonly newestFirst: boolean;
  /**
   * Writes finite numbers by flat id. The largest is evicted first. Policies with a forecast rank what comes after the
   * visits that tables tell of, in visits from now.
   */
  rank(residency: Residency, known: KnownVisits, into: EvictionRanks): void;
}

export interface KnownVisits {
  /** How many coming visits tables tell of. */
  count: number;
  /** Those of the running pass. */
  own: readonly PlannedVisit[];
}

export interface EvictionRanks {
  /** Until the pass has used the expert. */
  before: Float64Array;
  /** After the pass has used the expert. */
  after: Float64Array;
  /** After the expert's layer has run without using it. */
  unneeded: Float64Array;
}
