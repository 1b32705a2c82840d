/** Minibatches of sequences of similar length. Their order depends only on seed and epoch. */
import { randomOf, shuffle } from '../random.js';

export interface BatchLimits {
  /** Most sequences in a batch. */
  batch: number;
  /** Most tokens in a batch, unless a single sequence has more; 0 means no limit. */
  batchTokens: number;
}

/**
 * Sequences are sorted by length in pools of this many batches. A larger pool gives batches of more even length; a
 * smaller one gives a more random order.
 */
const POOL_BATCHES = 64;

/** Cuts `order`, indices into `lengths`, into consecutive batches. */
function cut(order: Int32Array, lengths: Int32Array, { batch, batchTokens }: BatchLimits): Int32Array[] {
  const batches: Int32Array[] = [];
  let begin = 0;
  let tokens = 0;
  for (let i = 0; i < order.length; i++) {
    const length = lengths[order[i]!]!;
    const full = i - begin === batch || (batchTokens > 0 && tokens + length > batchTokens);
    if (full && i > begin) {
      batches.push(order.slice(begin, i));
      begin = i;
      tokens = 0;
    }
    tokens += length;
  }
  if (begin < order.length) batches.push(order.slice(begin));
  return batches;
}

/** `lengths` holds the tokens of each sequence. Returns batches of indices into it, each index exactly once. */
export function epochBatches(
  lengths: Int32Array,
  limits: BatchLimits,
  seed: number,
  epoch: number,
): Int32Array[] {
  const random = randomOf(seed, epoch);
  const order = shuffle(
    Int32Array.from(lengths, (_, i) => i),
    random,
  );
  const pool = limits.batch * POOL_BATCHES;
  const batches: Int32Array[] = [];
  for (let begin = 0; begin < order.length; begin += pool) {
    const sorted = order.subarray(begin, begin + pool).sort((a, b) => lengths[a]! - lengths[b]! || a - b);
    batches.push(...cut(sorted, lengths, limits));
  }
  return shuffle(batches, random);
}

/** Returns batches sorted by length, for evaluation. */
export function evaluationBatches(lengths: Int32Array, limits: BatchLimits): Int32Array[] {
  const order = Int32Array.from(lengths, (_, i) => i).sort((a, b) => lengths[a]! - lengths[b]! || a - b);
  return cut(order, lengths, limits);
}
