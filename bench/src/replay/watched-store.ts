/** The engine's expert store, opened without weights. It reports the loads of a replay and moves no bytes. */

import { loadAddon } from '../../../dist/native/addon.js';
import type {
  EvictionPolicyName,
  PassNeeds,
  Residency,
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
  policy?: EvictionPolicyName;
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
  readonly #device: Device;
  readonly #store: WeightlessStore;
  readonly #watch: PassWatch<Pass>;

  constructor(device: Device, watch: PassWatch<Pass>) {
    this.#device = device;
    const { experts, layerExperts, ...rest } = device;
    const counts = new Uint32Array(experts / layerExperts).fill(layerExperts);
    const options = { ...rest, layerExperts: counts, loadsInFlight: LOADS_IN_FLIGHT };
    this.#store = new (loadAddon().WeightlessStore)(options);
    this.#watch = watch;
  }

  residency(): Residency {
    return this.#store.residency();
  }

  run(pass: Pass, needs: PassNeeds): void {
    const { experts, slots } = this.#device;
    this.#tell(pass, this.#store.startPass(slots < experts ? needs : null));
    for (const ids of pass.visits) {
      if (this.#watch.use !== undefined) for (const id of ids) this.#watch.use(pass, id);
      this.#tell(pass, this.#store.visit(Uint32Array.from(ids)));
    }
    if (needs.own.length > 0) this.#store.learn(needs, foundOf(pass.visits, needs, this.#device.layerExperts));
  }

  #tell(pass: Pass, loads: StoreLoads | null): void {
    if (loads === null) return;
    for (const id of loads.demanded) this.#watch.load(pass, id, true);
    for (const id of loads.planned) this.#watch.load(pass, id, false);
  }
}

/** 1 for each expert of the tables that the pass needed. */
export function foundOf(
  visits: ReplayPass['visits'],
  { own }: Pick<PassNeeds, 'own'>,
  layerExperts: number,
): Uint8Array {
  const needed = new Set(visits.flat());
  return Uint8Array.from(
    own.flatMap(({ layer, need }) =>
      Array.from(need, (_, index) => (needed.has(layer * layerExperts + index) ? 1 : 0)),
    ),
  );
}
