/** Memory of a plan. It is kept from pass to pass, so that planning allocates next to nothing. */
import type { EvictionRanks } from './policy.js';

export class PlanBuffers {
  /** (experts) each. They become the plan's keys. */
  readonly ranks: EvictionRanks;
  /** (experts), expected next use as the rehearsal goes on. */
  readonly nextUse: Float64Array;
  /** (experts), the visit of the rehearsal that last used the expert. */
  readonly usedAt: Int32Array;
  /** (experts), flags of the rehearsal. */
  readonly flags: Uint8Array;
  /** (experts), rank for eviction. */
  readonly rank: Float64Array;
  /** (experts), the plan's loads. */
  readonly loads: Uint32Array;
  readonly heap = new RankHeap();
  #afterVisit = new Float64Array();

  constructor(experts: number) {
    const numbers = () => new Float64Array(experts);
    this.ranks = { before: numbers(), after: numbers(), unneeded: numbers() };
    this.nextUse = numbers();
    this.usedAt = new Int32Array(experts);
    this.flags = new Uint8Array(experts);
    this.rank = numbers();
    this.loads = new Uint32Array(experts);
  }

  /** (entries of the visits, one after the other), next use after the visit. */
  afterVisit(entries: number): Float64Array {
    if (this.#afterVisit.length < entries) this.#afterVisit = new Float64Array(2 * entries);
    return this.#afterVisit;
  }
}

/** A binary heap of experts by rank, the largest first and the smaller id among equal ones. */
export class RankHeap {
  #ids = new Int32Array(64);
  #ranks = new Float64Array(64);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get topId(): number {
    return this.#ids[0]!;
  }

  get topRank(): number {
    return this.#ranks[0]!;
  }

  clear(): void {
    this.#size = 0;
  }

  push(id: number, rank: number): void {
    if (this.#size === this.#ids.length) this.#grow();
    const [ids, ranks] = [this.#ids, this.#ranks];
    let at = this.#size++;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!isBefore(rank, id, ranks[parent]!, ids[parent]!)) break;
      ids[at] = ids[parent]!;
      ranks[at] = ranks[parent]!;
      at = parent;
    }
    ids[at] = id;
    ranks[at] = rank;
  }

  pop(): void {
    const [ids, ranks] = [this.#ids, this.#ranks];
    const size = --this.#size;
    const id = ids[size]!;
    const rank = ranks[size]!;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= size) break;
      if (child + 1 < size && isBefore(ranks[child + 1]!, ids[child + 1]!, ranks[child]!, ids[child]!))
        child += 1;
      if (!isBefore(ranks[child]!, ids[child]!, rank, id)) break;
      ids[at] = ids[child]!;
      ranks[at] = ranks[child]!;
      at = child;
    }
    ids[at] = id;
    ranks[at] = rank;
  }

  #grow(): void {
    const [ids, ranks] = [this.#ids, this.#ranks];
    this.#ids = new Int32Array(2 * ids.length);
    this.#ranks = new Float64Array(2 * ids.length);
    this.#ids.set(ids);
    this.#ranks.set(ranks);
  }
}

function isBefore(rank: number, id: number, otherRank: number, otherId: number): boolean {
  return rank > otherRank || (rank === otherRank && id < otherId);
}
