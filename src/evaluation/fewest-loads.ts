/** Belady's rule (MIN) with the whole future in view: nothing loads less. */

/**
 * Experts loaded over visits, each the flat ids that a layer needs, by a device of `slots`. As in the expert store a
 * visit takes those at hand first, and an expert may go once it has computed. `experts`: of the model, all layers.
 * `onLoad` is told the expert and the visit, from 0.
 */
export function fewestLoads(
  visits: readonly (readonly number[])[],
  experts: number,
  slots: number,
  onLoad?: (id: number, visit: number) => void,
): number {
  const future = new Future(visits, experts);
  const held = new Uint8Array(experts);
  let [size, loads] = [0, 0];
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

/** The uses that are still to come. */
class Future {
  /** The visits that need each expert, ascending. */
  readonly #turns: number[][];
  /** Place of the next one among them. */
  readonly #place: Int32Array;
  readonly #never: number;
  /** Each expert's next use. */
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
   * Positive where `a` is evicted before `b`: its next use is farther. Ties: the expert goes whose use after that is
   * sooner: it must be loaded again then, and the expert loaded last must stay. And so on,
   * in turns.
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

/** The visits that need each expert, ascending. */
function turnsOf(visits: readonly (readonly number[])[], experts: number): number[][] {
  const turns: number[][] = Array.from({ length: experts }, () => []);
  visits.forEach((ids, turn) => {
    for (const id of ids) turns[id]!.push(turn);
  });
  return turns;
}
