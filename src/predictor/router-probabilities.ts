/** Estimates the router's probabilities over all experts of a layer; a trace records only the best logits. */
import type { TrainingBatch } from '../native/addon-types.js';
import type { RoutingShape } from './hash-function.js';

/**
 * Writes to `out` the probabilities of the `top` recorded logits that start at `from`, best first. Returns the mean
 * probability of an expert that was not recorded. The unrecorded logits are extrapolated from the last recorded one,
 * with the slope of the second half of the recorded logits.
 */
export function routerProbabilities(
  logits: Float32Array,
  from: number,
  top: number,
  experts: number,
  out: Float64Array,
): number {
  const best = logits[from]!;
  let sum = 0;
  for (let i = 0; i < top; i++) sum += out[i] = Math.exp(logits[from + i]! - best);
  const others = experts - top;
  const middle = (top - 1) >> 1;
  const last = logits[from + top - 1]!;
  const slope = top > 1 ? (last - logits[from + middle]!) / (top - 1 - middle) : 0;
  const mean = others > 0 ? Math.exp(last - best) * meanOfPowers(slope, others) : 0;
  sum += others * mean;
  for (let i = 0; i < top; i++) out[i]! /= sum;
  return mean / sum;
}

/**
 * Writes α of the same experts, as the model scales their outputs: the probabilities or, if the model is normalized,
 * their shares of the topK's sum. Returns α of an expert that was not recorded.
 */
export function routerAlphas(
  logits: Float32Array,
  from: number,
  top: number,
  { experts, topK, normalized }: Pick<RoutingShape, 'experts' | 'topK' | 'normalized'>,
  out: Float64Array,
): number {
  const unrecorded = routerProbabilities(logits, from, top, experts, out);
  if (!normalized) return unrecorded;
  let sum = 0;
  for (let i = 0; i < topK; i++) sum += out[i]!;
  for (let i = 0; i < top; i++) out[i]! /= sum;
  return unrecorded / sum;
}

/** Mean of e^(slope · i) for i from 1 to n. `slope` is at most 0. */
function meanOfPowers(slope: number, n: number): number {
  return slope < 0 ? (Math.exp(slope) * Math.expm1(slope * n)) / Math.expm1(slope) / n : 1;
}

/** Returns the router's probabilities of the `named` experts, (rows, k) like `named`. */
export function probabilitiesOf(
  named: Uint16Array,
  k: number,
  { experts, logits, top }: TrainingBatch,
  layerExperts: ArrayLike<number>,
): Float64Array {
  const probabilities = new Float64Array(named.length);
  const recorded = new Float64Array(top);
  const rows = named.length / k;
  for (let row = 0; row < rows; row++) {
    const own = layerExperts[Math.floor((row * layerExperts.length) / rows)]!;
    const unrecorded = routerProbabilities(logits, row * top, top, own, recorded);
    for (let i = row * k; i < (row + 1) * k; i++) {
      const rank = experts.subarray(row * top, (row + 1) * top).indexOf(named[i]!);
      probabilities[i] = rank < 0 ? unrecorded : recorded[rank]!;
    }
  }
  return probabilities;
}
