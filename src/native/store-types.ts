/** The expert store without weights. It decides what the engine would hold and load, and moves no bytes. */
import type { EvictionPolicyName, PassNeeds, Residency, ResidencyPlan } from './engine-types.js';

export interface WeightlessStoreOptions {
  /** Experts of each layer of the model. */
  layerExperts: Uint32Array;
  /** At least 1. Larger values than the number of experts count as that number. */
  slots: number;
  /**
   * Loads in flight on the engine's disk. A layer with at least as many experts resident or loading waits for a
   * better victim.
   */
  loadsInFlight: number;
  /** Which experts are evicted by plans for needs; default farthest-next-use. */
  policy?: EvictionPolicyName;
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
  /** The plan that the engine would make for a pass with these needs. */
  plan(needs: PassNeeds): ResidencyPlan;
  /** Begins a pass, as `Engine.runBatch` does. */
  startPass(plan: PassNeeds | ResidencyPlan | null): StoreLoads | null;
  /** Learns from a pass. `found` (experts of `needs.own`) is not 0 where a layer needed the expert. */
  learn(needs: PassNeeds, found: Uint8Array): void;
  /** See Engine. */
  readonly tableWeight: number;
  /** Nanoseconds of plans and of learning since the last call. */
  takePlanNs(): number;
  /**
   * Runs one layer. `ids` are the flat ids of the experts that it needs, ascending. Throws invalid_request for experts
   * of several layers.
   */
  visit(ids: Uint32Array): StoreLoads | null;
  /** Pins or unpins experts, as `Engine.pin` does. */
  pin(ids: Uint32Array, pinned: boolean): StoreLoads | null;
  residency(): Residency;
  /** Throws when an invariant of the store is broken. */
  checkIntegrity(): void;
}
