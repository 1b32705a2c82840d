/** Choosing tokens from a row of logits, (vocab). Sums are taken in float64. */
import { SidaError } from '../errors.js';

export interface RankedToken {
  id: number;
  logprob: number;
}

/** Throws nonfinite_output when the row holds NaN or an infinity. */
export function assertFinite(logits: Float32Array): void {
  for (let id = 0; id < logits.length; id++) {
    if (!Number.isFinite(logits[id]!)) {
      throw new SidaError({
        code: 'nonfinite_output',
        message: `The model gave ${logits[id]} as the logit of token ${id}`,
        details: { token: id },
      });
    }
  }
}

/** The most likely token, the lowest id on ties. */
export function greedy(logits: Float32Array): number {
  let best = 0;
  for (let id = 1; id < logits.length; id++) {
    if (logits[id]! > logits[best]!) best = id;
  }
  return best;
}

/** log Σ exp(logits): a logit minus this is its log-probability. */
export function logSumExp(logits: Float32Array): number {
  const max = logits[greedy(logits)]!;
  let sum = 0;
  for (let id = 0; id < logits.length; id++) sum += Math.exp(logits[id]! - max);
  return max + Math.log(sum);
}

/** The `count` most likely tokens, most likely first, ties by id. `logSum` is the row's logSumExp. */
export function mostLikely(logits: Float32Array, count: number, logSum: number): RankedToken[] {
  const best: number[] = [];
  for (let id = 0; id < logits.length; id++) {
    if (best.length === count && !(logits[id]! > logits[best[count - 1]!]!)) continue;
    let place = best.length;
    while (place > 0 && logits[id]! > logits[best[place - 1]!]!) place--;
    best.splice(place, 0, id);
    if (best.length > count) best.pop();
  }
  return best.map((id) => ({ id, logprob: logits[id]! - logSum }));
}

/** Softmax in float64. */
export function softmax(values: readonly number[]): number[] {
  const max = Math.max(...values);
  const powers = values.map((value) => Math.exp(value - max));
  const sum = powers.reduce((total, power) => total + power, 0);
  return powers.map((power) => power / sum);
}
