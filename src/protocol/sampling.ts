/** How the tokens of a generation are drawn. The native engine draws them. */

export interface Sampling {
  /** Above 0: greedy decoding has no sampling. */
  temperature: number;
  topP: number;
  minP: number;
  /** 0: all. */
  topK: number;
  /** 64 bits, of this choice alone. */
  seed: bigint;
}

/** 2^64 divided by the golden ratio, odd: its multiples are far apart. */
const SEED_STEP = 0x9e3779b97f4a7c15n;

/**
 * The seed of one of several choices of a prompt: the request's + choice · 0x9e3779b97f4a7c15, of which 64 bits
 * are kept. The first choice has the request's own seed, so that it is what a request for one choice gets.
 */
export function choiceSeed(seed: number, choice: number): bigint {
  return BigInt.asUintN(64, BigInt(seed) + BigInt(choice) * SEED_STEP);
}

export interface RankedToken {
  id: number;
  logprob: number;
}
