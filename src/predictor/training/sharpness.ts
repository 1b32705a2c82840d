/** How sharp a network's logits must be made for their softmax to be α, and to be the chance, of each expert. */
import type { Predictor } from '../../native/addon-types.js';
import type { Side } from '../hash-function.js';
import { inputOf, routedOf } from './hit-rates.js';
import { probabilitiesOf } from './router-probabilities.js';
import type { TeacherRecord } from './teacher.js';

/** Enough for one number a layer; bounds the logits that are held. */
const SAMPLE_TOKENS = 8192;
const LEAST = 0.001;
const MOST = 1000;
const MAX_ITERATIONS = 60;
const PRECISION = 1e-4;

export type LogitSource = Pick<Predictor, 'shape' | 'predict'>;

/** What the logits of each layer are multiplied by before the softmax. */
export interface Sharpness {
  alpha: number[];
  chance: number[];
}

/** Of the summed negative log-likelihood. */
interface Derivatives {
  slope: number;
  curvature: number;
}

/**
 * For each layer the α sharpness under which the probability of the expert named first is nearest to the router's, in
 * KL divergence of named or not, and the chance sharpness under which the router's choices are most likely; 1 where
 * there is nothing to fit them on. `heldOut` was not learned from.
 */
export function fitSharpness(network: LogitSource, side: Side, heldOut: readonly TeacherRecord[]): Sharpness {
  const { layers, experts } = network.shape;
  const records = sampled(heldOut, side);
  const input = inputOf(records, side);
  const tokens = input.tokens.length;
  const logits = new Float32Array(layers * tokens * experts);
  const named = { experts: new Uint16Array(layers * tokens), alpha: new Float32Array(layers * tokens) };
  if (tokens === 0 || !network.predict(input, 1, named.experts, named.alpha, undefined, logits)) {
    const ones = new Array<number>(layers).fill(1);
    return { alpha: ones, chance: ones };
  }
  const routed = routedOf(records, side, layers);
  const probabilities = probabilitiesOf(named.experts, records, side, layers, experts);
  const fitted: Sharpness = { alpha: [], chance: [] };
  for (let from = 0; from < routed.length; from += tokens) {
    const own = logits.subarray(from * experts, (from + tokens) * experts);
    const choices = routed.subarray(from, from + tokens);
    const alphas = probabilities.subarray(from, from + tokens);
    fitted.alpha.push(minimize((sharpness) => ofNamed(own, alphas, experts, sharpness)));
    fitted.chance.push(minimize((sharpness) => ofChoices(own, choices, experts, sharpness)));
  }
  return fitted;
}

/** Evenly apart, of about SAMPLE_TOKENS tokens. */
function sampled(records: readonly TeacherRecord[], side: Side): TeacherRecord[] {
  const tokens = records.reduce((sum, record) => sum + record[side].tokens.length, 0);
  const stride = Math.max(1, Math.ceil(tokens / SAMPLE_TOKENS));
  return records.filter((_, i) => i % stride === 0);
}

/** Newton's method, held between bounds that close in. */
function minimize(derivativesAt: (sharpness: number) => Derivatives): number {
  let [low, high, sharpness] = [LEAST, MOST, 1];
  for (let i = 0; i < MAX_ITERATIONS; i++) {
    const { slope, curvature } = derivativesAt(sharpness);
    if (slope > 0) high = sharpness;
    else low = sharpness;
    const newton = sharpness - slope / curvature;
    const next = newton > low && newton < high ? newton : Math.sqrt(low * high);
    if (Math.abs(next - sharpness) <= PRECISION * sharpness) return next;
    sharpness = next;
  }
  return sharpness;
}

/** Of the experts that the router chose, (tokens). Convex. */
function ofChoices(
  logits: Float32Array,
  choices: Uint16Array,
  experts: number,
  sharpness: number,
): Derivatives {
  let [slope, curvature] = [0, 0];
  for (let t = 0; t < choices.length; t++) {
    const row = logits.subarray(t * experts, (t + 1) * experts);
    const { mean, variance } = softmaxOf(row, sharpness);
    slope += mean - row[choices[t]!]!;
    curvature += variance;
  }
  return { slope, curvature };
}

/**
 * Of a draw with the router's `probabilities` (tokens) being the expert named, the best one, or another. The curvature
 * is Gauss-Newton's, which is not negative.
 */
function ofNamed(
  logits: Float32Array,
  probabilities: Float64Array,
  experts: number,
  sharpness: number,
): Derivatives {
  let [slope, curvature] = [0, 0];
  const others = new Float32Array(experts - 1);
  for (let t = 0; t < probabilities.length; t++) {
    const row = logits.subarray(t * experts, (t + 1) * experts);
    const best = row.indexOf(maxOf(row));
    others.set(row.subarray(0, best));
    others.set(row.subarray(best + 1), best);
    const { mean, logSum } = softmaxOf(others, sharpness);
    const named = 1 / (1 + Math.exp(logSum - sharpness * row[best]!));
    const gap = row[best]! - mean;
    slope += (named - probabilities[t]!) * gap;
    curvature += named * (1 - named) * gap * gap;
  }
  return { slope, curvature };
}

/** Of softmax(sharpness · z): mean and variance of z, and the logarithm of the sum it is normalized by. */
function softmaxOf(z: Float32Array, sharpness: number) {
  const top = maxOf(z);
  let [sum, first, second] = [0, 0, 0];
  for (let e = 0; e < z.length; e++) {
    const below = z[e]! - top;
    const p = Math.exp(sharpness * below);
    sum += p;
    first += p * below;
    second += p * below * below;
  }
  const mean = first / sum;
  return { mean: top + mean, variance: second / sum - mean * mean, logSum: sharpness * top + Math.log(sum) };
}

function maxOf(z: Float32Array): number {
  let top = Number.NEGATIVE_INFINITY;
  for (let e = 0; e < z.length; e++) if (z[e]! > top) top = z[e]!;
  return top;
}
