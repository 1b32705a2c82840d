/** The router's probabilities over all experts of a layer, of which a trace records only the best. */
import type { RoutingShape } from './hash-function.js';
import type { TeacherRecord } from './teacher.js';

/**
 * Into `out` those of the `top` logits recorded from `from` on, best first; returns that of each expert not recorded.
 * Their logits are taken to fall on, from the last recorded one, as they did over the second half of the recorded.
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
 * α of the same experts, as the model scales with it: their probabilities, or these as shares of the chosen ones'
 * sum.
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

/** Of e^(slope · i), i from 1 to n; slope at most 0. */
function meanOfPowers(slope: number, n: number): number {
  return slope < 0 ? (Math.exp(slope) * Math.expm1(slope * n)) / Math.expm1(slope) / n : 1;
}

/** α of the `named` experts, `k` of each token: (layers, tokens, k) as these are. */
export function alphasOf(
  named: Uint16Array,
  k: number,
  records: readonly TeacherRecord[],
  stack: number,
  shape: RoutingShape,
): Float64Array {
  const alphas = new Float64Array(named.length);
  const { layers } = shape.stacks[stack]!;
  const tokens = named.length / layers / k;
  let at = 0;
  for (const { top, ...record } of records) {
    const { experts, logits, tokens: own } = record.stacks[stack]!;
    const recorded = new Float64Array(top);
    for (let layer = 0; layer < layers; layer++) {
      for (let t = 0; t < own.length; t++) {
        const from = (layer * own.length + t) * top;
        const unrecorded = routerAlphas(logits, from, top, shape, recorded);
        const row = (layer * tokens + at + t) * k;
        for (let i = row; i < row + k; i++) {
          const rank = experts.subarray(from, from + top).indexOf(named[i]!);
          alphas[i] = rank < 0 ? unrecorded : recorded[rank]!;
        }
      }
    }
    at += own.length;
  }
  return alphas;
}
