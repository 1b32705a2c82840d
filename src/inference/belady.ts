/**
 * The loads of Belady's rule (MIN) over the true routing, with the planner's look-ahead. They are computed after the
 * fact: a visit counts once the batches that it may look ahead to are known.
 */

/** Visits of a batch that the look-ahead has in view at most: a long generation has no end of them. */
const BATCH_VISITS = 48;

interface BeladyOptions<Visit> {
  /** Where all visits of longer batches are to be in view. */
  batchVisits?: number;
  /** Called with the loads of each settled visit. */
  onLoads?: (visit: Visit, ids: readonly number[]) => void;
}

/** A layer's turn as it was: the flat ids of the experts it needed. */
export interface TrueVisit {
  batch: number;
  ids: readonly number[];
}

/** Contents of the imagined device. */
interface Cache {
  held: Uint8Array;
  size: number;
  /** Visits that needed the expert: the guess where the look-ahead ends. */
  uses: Float64Array;
}

export class Belady<Visit extends TrueVisit = TrueVisit> {
  readonly #lookahead: number;
  readonly #cache: Cache;
  /** Visits whose look-ahead is not known yet, oldest first. */
  readonly #open: Visit[] = [];
  readonly #batchVisits: number;
  readonly #onLoads: BeladyOptions<Visit>['onLoads'];
  #slots: number;
  #loads = 0;

  /** `experts`: of the model, all layers. */
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

  /** Loads of all visits that are settled. */
  get loads(): number {
    return this.#loads;
  }

  set slots(slots: number) {
    this.#slots = slots;
  }

  /** Visits come in order of time, their batches ascending. */
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

  /** What the last `count` visits would have loaded, as far as the truth is known: flat ids, one array a visit. */
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

/** By flat id: the visit that needs the expert next, and the one after that, or a guess behind them all. */
interface Future {
  next: Float64Array;
  second: Float64Array;
}

/**
 * Positive where `a` goes before `b`: its next use is farther. Of two with the same next use, the one whose
 * use after that is sooner goes first: it is then loaded again, and the expert loaded last must stay.
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
