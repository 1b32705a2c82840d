/** Sampling parameters of a generation. The native engine draws the tokens. */

export interface Sampling {
  /** Above 0, because greedy decoding uses no sampling. */
  temperature: number;
  topP: number;
  minP: number;
  /** 0 means all. */
  topK: number;
  /** 64-bit seed of this choice. */
  seed: bigint;
}

/** Changes to the logits that the next token is picked from. Its log-probability stays that of the model. */
export interface LogitAdjustments {
  /** Taken from the logit of each token that was generated. */
  presence: number;
  /** Taken from it once for each time that the token was generated. */
  frequency: number;
  /** Above 0. Positive logits of tokens of the prompt or generated are divided by it, the others multiplied. */
  repetition: number;
  /** Different tokens, and what is added to their logits. */
  biases: [id: number, bias: number][];
}

/** 2^64 divided by the golden ratio, made odd. Its multiples are far apart. */
const SEED_STEP = 0x9e3779b97f4a7c15n;

/**
 * Returns the seed of one choice of a prompt: (seed + choice · 0x9e3779b97f4a7c15) mod 2^64. The first choice has the
 * request's own seed, so it matches a request for a single choice.
 */
export function choiceSeed(seed: number, choice: number): bigint {
  return BigInt.asUintN(64, BigInt(seed) + BigInt(choice) * SEED_STEP);
}

/**
 * Requests have seeds of 64 bits, and numbers 53. Returns a number that hardly any other seed has, or one that is no
 * seed if the digits are of none.
 */
export function shortSeed(digits: string): number {
  const seed = BigInt(digits);
  const bits = BigInt.asUintN(64, seed);
  if (bits !== seed && BigInt.asIntN(64, seed) !== seed) return Number(digits);
  return Number(BigInt.asUintN(53, bits ^ ((bits >> 53n) * SEED_STEP)));
}

export interface RankedToken {
  id: number;
  logprob: number;
}
