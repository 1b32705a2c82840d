/** Seeded random numbers, the same on every machine. */

/** mulberry32 seeded with a mix of the seeds. Returns numbers in [0, 1). */
export function randomOf(...seeds: number[]): () => number {
  let state = 0x9e3779b9;
  for (const seed of seeds) state = Math.imul(state ^ seed, 0x85ebca6b) ^ (state >>> 13);
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** Fisher–Yates shuffle, in place. */
export function shuffle<T extends { length: number; [index: number]: number } | unknown[]>(
  items: T,
  random: () => number,
): T {
  const list = items as unknown[];
  for (let i = list.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    const kept = list[i];
    list[i] = list[j];
    list[j] = kept;
  }
  return items;
}
