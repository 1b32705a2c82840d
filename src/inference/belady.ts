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
  held: Uint8Array;
  size: number;
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
    this.#cache = { held: new Uint8Array(experts), size: 0, uses: new Float64Array(experts) };
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
    const { held, size, uses } = this.#cache;
    const copy: Cache = { held: held.slice(), size, uses: uses.slice() };
    return this.#open.map((_, i) => this.#settle(copy, this.#open, i)).slice(-count);
  }

  #settle(cache: Cache, visits: readonly TrueVisit[], at: number): number[] {
    const { held, uses } = cache;
    const { ids } = visits[at]!;
    const loads = ids.filter((id) => held[id] === 0);
    const crowded = cache.size + loads.length > this.#slots;
    const future = crowded ? this.#future(cache, visits, at) : undefined;
    for (const id of ids) uses[id]! += 1;
    // Load the next victim first, so that later loads can evict it.
    if (future !== undefined) loads.sort((a, b) => order(future, b, a));
    for (const id of loads) {
      while (future !== undefined && cache.size >= this.#slots) evict(cache, future);
      held[id] = 1;
      cache.size += 1;
    }
    return loads;
  }

  #future({ held, uses }: Cache, visits: readonly TrueVisit[], at: number): Future {
    const last = visits[at]!.batch + this.#lookahead;
    const next = new Float64Array(held.length);
    for (let id = 0; id < next.length; id++) next[id] = visits.length + 1 / (uses[id]! + 1);
    const second = next.slice();
    // Resident experts compute first, and each may be evicted once it has computed.
    for (let later = visits.length - 1; later > at; later--) {
      if (visits[later]!.batch > last) continue;
      for (const id of visits[later]!.ids) {
        second[id] = next[id]!;
        next[id] = later;
      }
    }
    return { next, second };
  }
}

/** By flat id: indices of the next two visits that need the expert, or estimates behind the last visit. */
interface Future {
  next: Float64Array;
  second: Float64Array;
}

/**
 * Positive if `a` should be evicted before `b`, because its next use is farther. If both have the same next use, the
 * one whose second use is sooner goes first: it is then loaded again, and the expert loaded last must stay.
 */
function order({ next, second }: Future, a: number, b: number): number {
  return next[a]! - next[b]! || second[b]! - second[a]!;
}

function evict(cache: Cache, future: Future): void {
  let victim = -1;
  for (let id = 0; id < cache.held.length; id++) {
    if (cache.held[id] !== 0 && (victim < 0 || order(future, id, victim) > 0)) victim = id;
  }
  cache.held[victim] = 0;
  cache.size -= 1;
}
