/** Where hits are counted: which of a router's choices are among the first so many experts named. */

/** The first 1, 2 and 3 of a router that chooses one expert; else as many as it chooses, and twice as many. */
export function hitRanks(topK: number): number[] {
  return topK === 1 ? [1, 2, 3] : [topK, 2 * topK];
}

/** The two that reports show: the first rank and the last. */
export function hitNames(topK: number): [first: string, last: string] {
  return topK === 1 ? ['top-1', 'top-3'] : [`recall@${topK}`, `recall@${2 * topK}`];
}

/**
 * Adds 1 to the hits of each rank for each of the `chosen` experts that is among its first `named`; others count
 * nothing.
 */
export function countHits(
  hits: number[],
  ranks: readonly number[],
  chosen: Uint16Array,
  named: Uint16Array,
): void {
  for (const expert of chosen) {
    const place = named.indexOf(expert);
    if (place < 0) continue;
    ranks.forEach((rank, i) => {
      if (place < rank) hits[i]! += 1;
    });
  }
}
