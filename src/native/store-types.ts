/** The expert store without weights: which experts the engine would hold and load, with no bytes moved. */
import type { Residency, ResidencyPlan } from './engine-types.js';

export interface WeightlessStoreOptions {
  /** Of the model, all layers. */
  experts: number;
  /** At least 1; values above the number of experts count as that number. */
  slots: number;
  /**
   * Loads in flight on the engine's disk. A layer with as many experts resident or loading waits for a better victim.
   */
  loadsInFlight: number;
}

/** Flat ids of the experts that a call loaded, each kind in the order of time. */
export interface StoreLoads {
  /** A layer waited for them. */
  demanded: Uint32Array;
  /** A plan or a pin asked for them. */
  planned: Uint32Array;
}

/**
 * Evicts and loads as the engine's store does for the same plans, needs and pins; every load ends at once. Each call
 * returns what it loaded; null is nothing. One thread uses it.
 */
export interface WeightlessStore {
  /** Begins a pass, as `Engine.runBatch` does. */
  startPass(plan: ResidencyPlan | null): StoreLoads | null;
  /** One layer's turn. `ids`: flat ids of the experts it needs, ascending. */
  visit(ids: Uint32Array): StoreLoads | null;
  /** As `Engine.pin`. */
  pin(ids: Uint32Array, pinned: boolean): StoreLoads | null;
  residency(): Residency;
  /** Throws when an invariant of the store is broken. */
  checkIntegrity(): void;
}
