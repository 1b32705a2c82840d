/** The expert store without weights: which experts the engine would hold and load, with no bytes moved. */
import type { Residency, ResidencyPlan } from './engine-types.js';

export interface WeightlessStoreOptions {
  /** Of the model, all layers. */
  experts: number;
  /** At least 1; those beyond one an expert stay away. */
  slots: number;
  /** Loads that the disk of the engine it stands for carries at a time: a layer with as many experts at hand waits for a better victim. */
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
 * The engine's store by its plans, needs and pins: the same evictions and loads, and every load ends at once. Each call says
 * what it loaded, null: nothing. One thread uses it.
 */
export interface WeightlessStore {
  /** As `Engine.runBatch` begins a pass. */
  startPass(plan: ResidencyPlan | null): StoreLoads | null;
  /** One layer's turn. `ids`: flat ids of the experts it needs, ascending. */
  visit(ids: Uint32Array): StoreLoads | null;
  /** As `Engine.pin`. */
  pin(ids: Uint32Array, pinned: boolean): StoreLoads | null;
  residency(): Residency;
  /** Throws when an invariant of the store is broken. */
  checkIntegrity(): void;
}
