/** Belady's rule (MIN) over the whole run. No other rule loads less. */

interface FewestOptions {
  /** Flat ids of the experts that the device holds before the first visit, at most as many as its slots. */
  begin?: readonly number[];
  /** Called for each load with the expert and the index of the visit. */
  onLoad?: (id: number, visit: number) => void;
}

/**
 * Counts the experts that a device with `slots` slots loads. A visit is the list of flat ids that a layer needs. As
 * in the expert store, a visit runs resident experts first, and an expert may be evicted once it has run. `experts`
 * counts the experts of all layers.
 */
export function fewestLoads(
  visits: readonly (readonly number[])[],
  experts: number,
  slots: number,
  { begin = [], onLoad }: FewestOptions = {},
): number {
  const future = new Future(visits, experts);
  const held = new Uint8Array(experts);
  for (const id of begin) held[id] = 1;
  let [size, loads] = [begin.length, 0];
  for (const [visit, ids] of visits.entries()) {
    for (const id of ids) future.used(id);
    // Load the next victim first, so that later loads can evict it.
    const missing = ids.filter((own) => held[own] === 0).sort((a, b) => future.order(b, a));
    for (const id of missing) {
      loads += 1;
      onLoad?.(id, visit);
      if (size === slots) held[future.firstToGo(held)] = 0;
      else size += 1;
      held[id] = 1;
    }
  }
  return loads;
}

interface LeastBytesOptions {
  /** Experts of all layers. */
  experts: number;
  slots: number;
  /** Bytes of an expert by flat id. */
  bytesOf: (id: number) => number;
  begin?: readonly number[];
}

/**
 * Bytes that no rule can go below. Every slot holds an expert of any size, so the experts of at least some size never
 * load less often than they would with all slots to themselves. The bound adds up these loads, size by size. Where all
 * experts have the same size, it is what Belady's rule loads.
 */
export function leastBytes(
  visits: readonly (readonly number[])[],
  { experts, slots, bytesOf, begin = [] }: LeastBytesOptions,
): number {
  const sizes = [...new Set(Array.from({ length: experts }, (_, id) => bytesOf(id)))].sort((a, b) => a - b);
  let [bytes, below] = [0, 0];
  for (const size of sizes) {
    const large = (id: number) => bytesOf(id) >= size;
    const needs = visits.map((ids) => ids.filter(large));
    bytes += (size - below) * fewestLoads(needs, experts, slots, { begin: begin.filter(large) });
    below = size;
  }
  return bytes;
}

/** The remaining uses of each expert. */
class Future {
  /** The visits that need each expert, ascending; (experts). */
  readonly #turns: number[][];
  /** Index of each expert's next visit in `#turns`. */
  readonly #place: Int32Array;
  readonly #never: number;
  /** The visit of each expert's next use, or `#never`. */
  readonly #next: Float64Array;

  constructor(visits: readonly (readonly number[])[], experts: number) {
    this.#turns = turnsOf(visits, experts);
    this.#place = new Int32Array(experts);
    this.#never = visits.length;
    this.#next = Float64Array.from({ length: experts }, (_, id) => this.#use(id, 0));
  }

  used(id: number): void {
    this.#place[id]! += 1;
    this.#next[id] = this.#use(id, 0);
  }

  /**
   * Positive when `a` is evicted before `b`. The expert with the farther next use goes first. On a tie, the expert
   * with the sooner use after that goes first: the tied visit loads it again, and the expert loaded last stays for
   * its use. Further ties alternate between the two rules.
   */
  order(a: number, b: number): number {
    for (let ahead = 0; ; ahead++) {
      const [useOfA, useOfB] = [this.#use(a, ahead), this.#use(b, ahead)];
      if (useOfA !== useOfB) return ahead % 2 === 0 ? useOfA - useOfB : useOfB - useOfA;
      if (useOfA === this.#never) return 0;
    }
  }

  firstToGo(held: Uint8Array): number {
    let victim = -1;
    for (let id = 0; id < held.length; id++) {
      if (held[id] === 0) continue;
      const farther = victim < 0 ? 1 : this.#next[id]! - this.#next[victim]!;
      if (farther > 0 || (farther === 0 && this.order(id, victim) > 0)) victim = id;
    }
    return victim;
  }

  #use(id: number, ahead: number): number {
    return this.#turns[id]![this.#place[id]! + ahead] ?? this.#never;
  }
}

/** Lists the visits that need each expert, ascending. */
function turnsOf(visits: readonly (readonly number[])[], experts: number): number[][] {
  const turns: number[][] = Array.from({ length: experts }, () => []);
  visits.forEach((ids, turn) => {
    for (const id of ids) turns[id]!.push(turn);
  });
  return turns;
}
