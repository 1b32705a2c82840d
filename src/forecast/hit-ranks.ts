/**
 * Ranks at which hits are counted: a router's choice is a hit at rank n if it is among the first n predicted experts.
 */

/** 1, 2 and 3 for a router that chooses one expert; otherwise topK and 2 · topK. */
export function hitRanks(topK: number): number[] {
  return topK === 1 ? [1, 2, 3] : [topK, 2 * topK];
}

/** Names of the first and the last rank, which reports show. */
export function hitNames(topK: number): [first: string, last: string] {
  return topK === 1 ? ['top-1', 'top-3'] : [`recall@${topK}`, `recall@${2 * topK}`];
}

/** Numbers of leading table entries to check for a token: the first and the last of hitRanks(). */
export function recallWidths(topK: number): { narrow: number; wide: number } {
  const ranks = hitRanks(topK);
  return { narrow: ranks[0]!, wide: ranks.at(-1)! };
}

/** For each rank, adds to `hits` the number of `chosen` experts among the first `rank` entries of `named`. */
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
