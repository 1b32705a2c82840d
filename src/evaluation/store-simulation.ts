/**
 * The native expert store without its experts: the same residency, victims and loads for the same plans and needs,
 * so that bytes can be counted without moving any. Transfers take no time here: a prefetch is there as soon as a slot
 * may be had. native/src/expert/expert_store.cc is what it follows.
 */
import { ABSENT, RESIDENT, type Residency, type ResidencyPlan } from '../native/addon-types.js';

export interface StoreWatch {
  /** `demanded`: a layer waited for it; otherwise a plan or a pin asked for it. */
  load?(id: number, demanded: boolean): void;
  /** A layer needs the expert, before it is loaded where it is missing. */
  use?(id: number): void;
}

const NONE = -1;
/**
 * Experts of a layer that are at hand or on their way before it waits for a better victim: the real store's is the
 * disk's depth.
 */
const ENOUGH = 4;

export class StoreSimulation {
  readonly #experts: number;
  readonly #slots: number;
  #free: number;
  /** By flat id, as in `Residency`. */
  readonly #state: Uint8Array;
  readonly #pinned: Uint8Array;
  readonly #uses: Float64Array;
  readonly #lastUse: Float64Array;
  readonly #loadedAt: Float64Array;
  /** Needed by the running pass already: `keysAfter` counts. */
  readonly #used: Uint8Array;
  readonly #leased: Uint8Array;
  #keys: Float64Array;
  #keysAfter: Float64Array;
  #expendable = 0;
  #newestFirst = false;
  #waiting: number[] = [];
  #clock = 0;
  #visits = 0;
  #loads = 0;
  readonly #watch: StoreWatch;

  /** `experts`: of the model, all layers. */
  constructor(experts: number, slots: number, watch: StoreWatch = {}) {
    this.#watch = watch;
    this.#experts = experts;
    this.#slots = Math.min(slots, experts);
    this.#free = this.#slots;
    this.#state = new Uint8Array(experts);
    this.#pinned = new Uint8Array(experts);
    this.#uses = new Float64Array(experts);
    this.#lastUse = new Float64Array(experts);
    this.#loadedAt = new Float64Array(experts);
    this.#used = new Uint8Array(experts);
    this.#leased = new Uint8Array(experts);
    this.#keys = new Float64Array(experts);
    this.#keysAfter = new Float64Array(experts);
  }

  /** Experts moved to the device so far. */
  get loads(): number {
    return this.#loads;
  }

  residency(): Residency {
    return {
      state: this.#state.slice(),
      pinned: this.#pinned.slice(),
      uses: this.#uses.slice(),
      lastUse: this.#lastUse.slice(),
      loadedAt: this.#loadedAt.slice(),
      slots: this.#slots,
      freeSlots: this.#free,
      visits: this.#visits,
    };
  }

  /** Loads the experts, never to evict them. One slot at least stays unpinned. */
  pin(ids: readonly number[]): void {
    // First those at hand: a load must not evict one of them.
    for (const id of ids) if (this.#state[id] !== ABSENT) this.#pinned[id] = 1;
    for (const id of ids) {
      if (this.#state[id] === ABSENT) this.#load(id, this.#victim(), false);
      this.#pinned[id] = 1;
    }
  }

  /** Null: no keys, no prefetches. */
  startPass(plan: ResidencyPlan | null): void {
    this.#used.fill(0);
    this.#keys = plan?.keys.slice() ?? new Float64Array(this.#experts);
    this.#keysAfter = plan?.keysAfter ?? this.#keys;
    this.#expendable = plan?.expendable ?? 0;
    this.#newestFirst = plan?.newestFirst ?? false;
    this.#waiting = plan === null ? [] : [...plan.loads];
    this.#prefetch();
  }

  /** A layer's turn. `ids`: the experts it needs, ascending. */
  visit(ids: readonly number[]): void {
    this.#visits += 1;
    const missing: number[] = [];
    /** Leased and not computed yet, in the order they compute. */
    const leased: number[] = [];
    for (const id of ids) {
      this.#watch.use?.(id);
      this.#uses[id]! += 1;
      this.#lastUse[id] = ++this.#clock;
      this.#used[id] = 1;
      if (this.#state[id] === ABSENT) {
        missing.push(id);
        continue;
      }
      this.#leased[id] = 1;
      leased.push(id);
    }
    for (;;) {
      while (missing.length > 0) {
        const victim = this.#victim();
        if (this.#free === 0 && (victim === NONE || this.#betterWaits(victim, leased))) break;
        const id = missing.shift()!;
        this.#load(id, victim, true);
        this.#leased[id] = 1;
        leased.push(id);
      }
      if (missing.length === 0) this.#prefetch();
      const computed = leased.shift();
      if (computed === undefined) break;
      this.#leased[computed] = 0;
    }
    if (missing.length > 0) {
      throw new Error(`No slot of ${this.#slots} can be freed for a layer. This is a bug.`);
    }
  }

  #betterWaits(victim: number, leased: readonly number[]): boolean {
    const key = this.#key(victim);
    return key < this.#expendable && leased.length >= ENOUGH && leased.some((id) => this.#key(id) > key);
  }

  #key(id: number): number {
    return (this.#used[id] === 0 ? this.#keys : this.#keysAfter)[id]!;
  }

  #victim(): number {
    let victim = NONE;
    for (let id = 0; id < this.#experts; id++) {
      if (this.#state[id] === ABSENT || this.#pinned[id] !== 0 || this.#leased[id] !== 0) continue;
      if (victim !== NONE) {
        const [key, largest] = [this.#key(id), this.#key(victim)];
        if (key < largest) continue;
        const newer = this.#lastUse[id]! > this.#lastUse[victim]!;
        if (key === largest && newer !== this.#newestFirst) continue;
      }
      victim = id;
    }
    return victim;
  }

  /** Into a free slot, or the victim's where none is free. */
  #load(id: number, victim: number, demanded: boolean): void {
    if (this.#free > 0) this.#free -= 1;
    else this.#state[victim] = ABSENT;
    this.#state[id] = RESIDENT;
    this.#loadedAt[id] = ++this.#clock;
    this.#loads += 1;
    this.#watch.load?.(id, demanded);
  }

  /** Each takes a free slot or evicts an expendable expert with a larger key than its own; the others go on waiting. */
  #prefetch(): void {
    while (this.#waiting.length > 0) {
      const free = this.#free > 0;
      const victim = free ? NONE : this.#victim();
      if (!free && (victim === NONE || this.#key(victim) < this.#expendable)) return;
      const next = this.#waiting.findIndex(
        (id) =>
          this.#state[id] === ABSENT && this.#used[id] === 0 && (free || this.#key(id) < this.#key(victim)),
      );
      if (next < 0) return;
      const [id] = this.#waiting.splice(next, 1);
      this.#load(id!, victim, false);
      // Brought back for its next use, it must not go again before that.
      if (this.#keys[id!]! >= this.#expendable) this.#keys[id!]! -= this.#expendable;
    }
  }
}
