/**
 * Computes the loads of Belady's rule (MIN) over the true routing, with the planner's look-ahead. It runs after the
 * fact: a visit is settled once the batches within its look-ahead are known.
 */

/** Most visits of a batch within the look-ahead. It bounds the open visits, since a generation may be very long. */
const BATCH_VISITS = 48;

interface BeladyOptions<Visit> {
  /** Set it higher to keep all visits of long batches in view. */
  batchVisits?: number;
  /** Called with the loads of each settled visit. */
  onLoads?: (visit: Visit, ids: readonly number[]) => void;
}

/** A layer's visit as it happened: the flat ids of the experts it needed. */
export interface TrueVisit {
  batch: number;
  ids: readonly number[];
}

/** A visit whose look-ahead is not fully known yet. */
interface OpenVisit<Visit> {
  visit: Visit;
  /** Of each id: number of the next open visit that needs it, or NEVER; and its place among that visit's ids. */
  after: Float64Array;
  place: Int32Array;
}

const NEVER = Number.POSITIVE_INFINITY;

/** Contents of the simulated device, and what comes next for each expert. */
interface Cache {
  /** Flat ids, in any order. Each eviction looks at all of them, which are a small part of all experts. */
  held: number[];
  /** By flat id: its place in `held`, or -1. */
  places: Int32Array;
  /** Number of visits that needed the expert; estimates its next use beyond the look-ahead. */
  uses: Float64Array;
  /** By flat id: number of the first unsettled visit that needs it, or NEVER; and its place among that visit's ids. */
  next: Float64Array;
  nextPlace: Int32Array;
}

export class Belady<Visit extends TrueVisit = TrueVisit> {
  readonly #lookahead: number;
  readonly #cache: Cache;
  /** Oldest first, numbered in the order of their arrival. */
  readonly #open: OpenVisit<Visit>[] = [];
  /** Number of the oldest open visit. */
  #first = 0;
  /** By flat id: number of the last visit that needs it, and its place among that visit's ids. */
  readonly #last: Float64Array;
  readonly #lastPlace: Int32Array;
  readonly #batchVisits: number;
  readonly #onLoads: BeladyOptions<Visit>['onLoads'];
  #slots: number;
  #loads = 0;

  /** `experts` counts the experts of all layers. */
  constructor(
    experts: number,
    slots: number,
    lookahead: number,
    { batchVisits = BATCH_VISITS, onLoads }: BeladyOptions<Visit> = {},
  ) {
    this.#batchVisits = batchVisits;
    this.#onLoads = onLoads;
    this.#lookahead = lookahead;
    this.#slots = slots;
    this.#cache = {
      held: [],
      places: new Int32Array(experts).fill(-1),
      uses: new Float64Array(experts),
      next: new Float64Array(experts).fill(NEVER),
      nextPlace: new Int32Array(experts),
    };
    this.#last = new Float64Array(experts).fill(-1);
    this.#lastPlace = new Int32Array(experts);
  }

  /** Loads of all settled visits. */
  get loads(): number {
    return this.#loads;
  }

  set slots(slots: number) {
    this.#slots = slots;
  }

  /** Visits must come in order of time, with ascending batches, and name each expert once. */
  add(visit: Visit): void {
    this.#append(visit);
    const most = this.#batchVisits * (this.#lookahead + 1);
    while (this.#open.length > most || this.#open[0]!.visit.batch + this.#lookahead < visit.batch) {
      const loads = this.#settle(this.#cache, 0);
      this.#loads += loads.length;
      const settled = this.#open.shift()!;
      this.#first += 1;
      this.#onLoads?.(settled.visit, loads);
    }
  }

  /**
   * Returns the loads of the last `count` visits, judged by the visits known so far: an array of flat ids per visit.
   */
  lastLoads(count: number): number[][] {
    const { held, places, uses, next, nextPlace } = this.#cache;
    const copy: Cache = {
      held: held.slice(),
      places: places.slice(),
      uses: uses.slice(),
      next: next.slice(),
      nextPlace: nextPlace.slice(),
    };
    return this.#open.map((_, i) => this.#settle(copy, i)).slice(-count);
  }

  /** Makes the visit the next one of each expert that no open visit needs, and else follows the last that does. */
  #append(visit: Visit): void {
    const { next, nextPlace } = this.#cache;
    const number = this.#first + this.#open.length;
    const count = visit.ids.length;
    const open = { visit, after: new Float64Array(count).fill(NEVER), place: new Int32Array(count) };
    for (let place = 0; place < count; place++) {
      const id = visit.ids[place]!;
      const before = this.#open[this.#last[id]! - this.#first];
      if (before === undefined) {
        next[id] = number;
        nextPlace[id] = place;
      } else {
        before.after[this.#lastPlace[id]!] = number;
        before.place[this.#lastPlace[id]!] = place;
      }
      this.#last[id] = number;
      this.#lastPlace[id] = place;
    }
    this.#open.push(open);
  }

  #settle(cache: Cache, at: number): number[] {
    const { held, places, uses, next, nextPlace } = cache;
    const { visit, after, place } = this.#open[at]!;
    const { ids, batch } = visit;
    for (let i = 0; i < ids.length; i++) {
      next[ids[i]!] = after[i]!;
      nextPlace[ids[i]!] = place[i]!;
    }
    const loads = ids.filter((id) => places[id]! < 0);
    if (held.length + loads.length > this.#slots) {
      const future = new Future(cache, this.#open, this.#first, batch + this.#lookahead);
      // Load the next victim first, so that later loads can evict it.
      loads.sort((a, b) => future.order(b, a));
      for (const id of loads) {
        while (held.length > 0 && held.length >= this.#slots) evict(cache, future);
        hold(cache, id);
      }
    } else for (const id of loads) hold(cache, id);
    for (const id of ids) uses[id]! += 1;
    return loads;
  }
}

/** When each expert is needed next, in visits from the oldest open one, as far as the look-ahead shows. */
class Future {
  readonly #cache: Cache;
  readonly #open: readonly OpenVisit<TrueVisit>[];
  readonly #first: number;
  /** Number of the last visit in view. */
  readonly #limit: number;

  /** Shows visits up to the batch `last`. The uses must stay as they are while it is in use. */
  constructor(cache: Cache, open: readonly OpenVisit<TrueVisit>[], first: number, last: number) {
    this.#cache = cache;
    this.#open = open;
    this.#first = first;
    let shown = open.length;
    while (open[shown - 1]!.visit.batch > last) shown -= 1;
    this.#limit = first + shown - 1;
  }

  /**
   * Positive if `a` should be evicted before `b`, because its next use is farther. If both have the same next use, the
   * one whose second use is sooner goes first: it is then loaded again, and the expert loaded last must stay. Resident
   * experts compute first, and each may be evicted once it has computed.
   */
  order(a: number, b: number): number {
    return this.#nextOf(a) - this.#nextOf(b) || this.#secondOf(b) - this.#secondOf(a);
  }

  /** Which of the experts goes first; the one of the least id among equals. Written out, as it runs for every load. */
  victim(held: readonly number[]): number {
    const { next, uses } = this.#cache;
    const [first, limit, end] = [this.#first, this.#limit, this.#open.length];
    let victim = -1;
    let farthest = -1;
    let sooner = 0;
    for (const id of held) {
      const known = next[id]! <= limit;
      const own = known ? next[id]! - first : end + 1 / (uses[id]! + 1);
      if (own < farthest) continue;
      const again = known ? this.#secondOf(id) : own;
      if (own > farthest || again < sooner || (again === sooner && id < victim)) {
        victim = id;
        farthest = own;
        sooner = again;
      }
    }
    return victim;
  }

  #nextOf(id: number): number {
    const next = this.#cache.next[id]!;
    return next <= this.#limit ? next - this.#first : this.#guess(id);
  }

  #secondOf(id: number): number {
    const { next, nextPlace } = this.#cache;
    if (next[id]! > this.#limit) return this.#guess(id);
    const second = this.#open[next[id]! - this.#first]!.after[nextPlace[id]!]!;
    return second <= this.#limit ? second - this.#first : this.#guess(id);
  }

  /** Behind the last visit, the sooner the more often it was used. */
  #guess(id: number): number {
    return this.#open.length + 1 / (this.#cache.uses[id]! + 1);
  }
}

function hold({ held, places }: Cache, id: number): void {
  places[id] = held.length;
  held.push(id);
}

function evict({ held, places }: Cache, future: Future): void {
  const victim = future.victim(held);
  const last = held.pop()!;
  if (last !== victim) {
    held[places[victim]!] = last;
    places[last] = places[victim]!;
  }
  places[victim] = -1;
}
