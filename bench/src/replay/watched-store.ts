/** The engine's expert store, opened without weights. It reports the loads of a replay and moves no bytes. */
import { loadAddon } from '../../../dist/native/addon.js';
import type {
  Residency,
  ResidencyPlan,
  StoreLoads,
  WeightlessStore,
} from '../../../dist/native/addon-types.js';
import type { ReplayPass, ReplayStore } from './replay.js';

export interface Device {
  /** Experts of all layers of the model. */
  experts: number;
  /** Experts of each layer. */
  layerExperts: number;
  slots: number;
}

/** Callbacks for events of experts, each with the pass in which the event happens. */
export interface PassWatch<Pass> {
  /** An expert was loaded. `demanded` means that a layer waited for it. Otherwise a plan loaded it. */
  load(pass: Pass, id: number, demanded: boolean): void;
  /** A layer needs an expert. Called before a missing one is loaded, and not by rules without prefetches. */
  use?(pass: Pass, id: number): void;
}

/** Reads in flight that keep an ordinary disk busy. The engine measures this number for its own disk. */
const LOADS_IN_FLIGHT = 4;

export class WatchedStore<Pass extends ReplayPass> implements ReplayStore<Pass> {
  readonly #store: WeightlessStore;
  readonly #watch: PassWatch<Pass>;

  constructor(device: Device, watch: PassWatch<Pass>) {
    this.#store = new (loadAddon().WeightlessStore)({ ...device, loadsInFlight: LOADS_IN_FLIGHT });
    this.#watch = watch;
  }

  residency(): Residency {
    return this.#store.residency();
  }

  run(pass: Pass, plan: ResidencyPlan | null): void {
    this.#tell(pass, this.#store.startPass(plan));
    for (const ids of pass.visits) {
      if (this.#watch.use !== undefined) for (const id of ids) this.#watch.use(pass, id);
      this.#tell(pass, this.#store.visit(Uint32Array.from(ids)));
    }
  }

  #tell(pass: Pass, loads: StoreLoads | null): void {
    if (loads === null) return;
    for (const id of loads.demanded) this.#watch.load(pass, id, true);
    for (const id of loads.planned) this.#watch.load(pass, id, false);
  }
}
