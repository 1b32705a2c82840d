/** The expert store without weights. It decides what the engine would hold and load, and moves no bytes. */
import type { Residency, ResidencyPlan } from './engine-types.js';

export interface WeightlessStoreOptions {
  /** Experts of all layers of the model. */
  experts: number;
  /** Experts of each layer. */
  layerExperts: number;
  /** At least 1. Larger values than the number of experts count as that number. */
  slots: number;
  /**
   * Loads in flight on the engine's disk. A layer with at least as many experts resident or loading waits for a
   * better victim.
   */
  loadsInFlight: number;
}

/** Flat ids of the experts that a call loaded, each array in the order of the loads. */
export interface StoreLoads {
  /** Experts that a layer waited for. */
  demanded: Uint32Array;
  /** Experts that a plan or a pin loaded. */
  planned: Uint32Array;
}

/**
 * Evicts and loads as the engine's store does for the same plans, needs and pins. Every load ends at once. Each call
 * returns its loads, or null when there are none. Not thread-safe.
 */
export interface WeightlessStore {
  /** Begins a pass, as `Engine.runBatch` does. */
  startPass(plan: ResidencyPlan | null): StoreLoads | null;
  /**
   * Runs one layer. `ids` are the flat ids of the experts that it needs, ascending. Throws invalid_request for experts
   * of several layers.
   */
  visit(ids: Uint32Array): StoreLoads | null;
  /** Pins or unpins experts, as `Engine.pin` does. */
  pin(ids: Uint32Array, pinned: boolean): StoreLoads | null;
  residency(into?: Residency): Residency;
  /** Throws when an invariant of the store is broken. */
  checkIntegrity(): void;
}
