/** Minibatches of sequences of like length, in an order that follows from seed and epoch alone. */
import { randomOf, shuffle } from '../random.js';

export interface BatchLimits {
  /** Most sequences of a batch. */
  batch: number;
  /** Most tokens of a batch, unless one sequence alone has more; 0: no limit. */
  batchTokens: number;
}

/** Batches' worth of sequences that are sorted together: more is more alike in length, less is more random. */
const POOL_BATCHES = 64;

/** `order` holds places in `lengths`; cuts it into batches in turn. */
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

/** Places in `lengths` (tokens of each sequence), each in exactly one batch of the epoch. */
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

/** Batches in order of length, for measuring. */
export function evaluationBatches(lengths: Int32Array, limits: BatchLimits): Int32Array[] {
  const order = Int32Array.from(lengths, (_, i) => i).sort((a, b) => lengths[a]! - lengths[b]! || a - b);
  return cut(order, lengths, limits);
}
