/** Passes whose times follow a law, given to a governor. No test waits for them. */
import type { Governor } from '../../../src/inference/governor.js';

export interface Load {
  /** Milliseconds of a pass without tables. */
  ms: (tokens: number) => number;
  /** What tables make of it: 0.8 saves 20 %. */
  factor: number;
  /** Standard deviation of a pass's time, as a share of it. */
  noise?: number;
  /** Milliseconds that the next pass waits for something that has nothing to do with prediction. */
  stall?: (random: () => number, rests: boolean) => number;
  /** Tokens of the next pass. */
  tokens?: (random: () => number, rests: boolean) => number;
}

/** Uniform numbers in [0, 1) that depend on the seed alone. */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Runs passes for `seconds`. Returns how much longer they took than in the better arm throughout, as a share. */
export function run(governor: Governor, load: Load, seconds: number, random: () => number): number {
  const { ms, factor, noise = 0, stall = () => 0, tokens = () => 16 } = load;
  let took = 0;
  let best = 0;
  while (took < seconds * 1000) {
    const { rests } = governor;
    const size = tokens(random, rests);
    const chance = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
    const base = ms(size) * Math.max(0.1, 1 + noise * chance);
    const stalled = stall(random, rests);
    const time = stalled + (rests ? base : base * factor);
    took += time;
    best += stalled + base * Math.min(1, factor);
    governor.passed({ kind: 0, tokens: size, ms: time }, true);
  }
  return took / best - 1;
}
