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

/** Contents of the simulated device. */
interface Cache {
  /** Flat ids, in any order. Each eviction looks at all of them, which are a small part of all experts. */
  held: number[];
  /** By flat id: its place in `held`, or -1. */
  places: Int32Array;
  /** Number of visits that needed the expert; estimates its next use beyond the look-ahead. */
  uses: Float64Array;
}

export class Belady<Visit extends TrueVisit = TrueVisit> {
  readonly #lookahead: number;
  readonly #cache: Cache;
  /** Visits whose look-ahead is not fully known yet, oldest first. */
  readonly #open: Visit[] = [];
  readonly #batchVisits: number;
  readonly #onLoads: BeladyOptions<Visit>['onLoads'];
  readonly #future: Future;
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
    this.#cache = { held: [], places: new Int32Array(experts).fill(-1), uses: new Float64Array(experts) };
    this.#future = new Future(experts);
  }

  /** Loads of all settled visits. */
  get loads(): number {
    return this.#loads;
  }

  set slots(slots: number) {
    this.#slots = slots;
  }

  /** Visits must come in order of time, with ascending batches. */
  add(visit: Visit): void {
    this.#open.push(visit);
    const most = this.#batchVisits * (this.#lookahead + 1);
    while (this.#open.length > most || this.#open[0]!.batch + this.#lookahead < visit.batch) {
      const loads = this.#settle(this.#cache, this.#open, 0);
      this.#loads += loads.length;
      const settled = this.#open.shift()!;
      this.#onLoads?.(settled, loads);
    }
  }

  /**
   * Returns the loads of the last `count` visits, judged by the visits known so far: an array of flat ids per visit.
   */
  lastLoads(count: number): number[][] {
    const { held, places, uses } = this.#cache;
    const copy: Cache = { held: held.slice(), places: places.slice(), uses: uses.slice() };
    return this.#open.map((_, i) => this.#settle(copy, this.#open, i)).slice(-count);
  }

  #settle(cache: Cache, visits: readonly TrueVisit[], at: number): number[] {
    const { held, places, uses } = cache;
    const { ids, batch } = visits[at]!;
    const loads = ids.filter((id) => places[id]! < 0);
    if (held.length + loads.length > this.#slots) {
      const future = this.#future.look(visits, at, batch + this.#lookahead, uses);
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

/** When each expert is needed next, as far as the look-ahead shows. */
class Future {
  /** By flat id: indices of the next two visits that need the expert. Only of those that this look has met. */
  readonly #next: Float64Array;
  readonly #second: Float64Array;
  /** By flat id: the last look that has met it. */
  readonly #met: Float64Array;
  #looks = 0;
  #end = 0;
  #uses: Float64Array = new Float64Array();

  constructor(experts: number) {
    this.#next = new Float64Array(experts);
    this.#second = new Float64Array(experts);
    this.#met = new Float64Array(experts);
  }

  /** Looks at the visits behind `at` up to batch `last`. `uses` must stay as they are while the look is in use. */
  look(visits: readonly TrueVisit[], at: number, last: number, uses: Float64Array): this {
    this.#looks += 1;
    this.#end = visits.length;
    this.#uses = uses;
    for (let later = visits.length - 1; later > at; later--) {
      if (visits[later]!.batch > last) continue;
      for (const id of visits[later]!.ids) {
        this.#second[id] = this.#nextOf(id);
        this.#next[id] = later;
        this.#met[id] = this.#looks;
      }
    }
    return this;
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
    const [next, second, met, looks] = [this.#next, this.#second, this.#met, this.#looks];
    const [end, uses] = [this.#end, this.#uses];
    let victim = -1;
    let farthest = -1;
    let sooner = 0;
    for (const id of held) {
      const known = met[id] === looks;
      const own = known ? next[id]! : end + 1 / (uses[id]! + 1);
      if (own < farthest) continue;
      const again = known ? second[id]! : own;
      if (own > farthest || again < sooner || (again === sooner && id < victim)) {
        victim = id;
        farthest = own;
        sooner = again;
      }
    }
    return victim;
  }

  #nextOf(id: number): number {
    return this.#met[id] === this.#looks ? this.#next[id]! : this.#guess(id);
  }

  #secondOf(id: number): number {
    return this.#met[id] === this.#looks ? this.#second[id]! : this.#guess(id);
  }

  /** Behind the last visit, the sooner the more often it was used. */
  #guess(id: number): number {
    return this.#end + 1 / (this.#uses[id]! + 1);
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
