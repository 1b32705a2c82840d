/** The engine's expert store, opened without weights: what a replay's passes load, with no bytes moved. */
import { loadAddon } from '../native/addon.js';
import type { Residency, ResidencyPlan, StoreLoads, WeightlessStore } from '../native/addon-types.js';
import type { ReplayPass, ReplayStore } from './replay.js';

export interface Device {
  /** Of the model, all layers. */
  experts: number;
  slots: number;
}

/** Told the pass during which something happens to an expert. */
export interface PassWatch<Pass> {
  /** `demanded`: a layer waited for it; otherwise a plan or a pin asked for it. */
  load(pass: Pass, id: number, demanded: boolean): void;
  /** A layer needs it, before it is loaded where it is missing; rules without prefetches do not tell. */
  use?(pass: Pass, id: number): void;
}

/** Reads in flight that fill an ordinary disk; the engine measures those of its own. */
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

  /** `pass`: the one that the loads count for; without, they count for none. */
  pin(ids: readonly number[], pass: Pass | undefined): void {
    const loads = this.#store.pin(Uint32Array.from(ids), true);
    if (pass !== undefined) this.#tell(pass, loads);
  }

  #tell(pass: Pass, loads: StoreLoads | null): void {
    if (loads === null) return;
    for (const id of loads.demanded) this.#watch.load(pass, id, true);
    for (const id of loads.planned) this.#watch.load(pass, id, false);
  }
}
