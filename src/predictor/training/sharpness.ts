/** Fits the factors on a network's logits whose softmax best gives α, and the chance, of each expert. */
import type { Predictor } from '../../native/addon-types.js';
import type { RoutingShape } from '../hash-function.js';
import { alphasOf } from '../router-probabilities.js';
import type { TeacherRecord } from '../teacher.js';
import { inputOf, routedOf } from './hit-rates.js';

/** Tokens of the sample. It is large enough to fit one number per layer, and it bounds the memory for logits. */
const SAMPLE_TOKENS = 8192;
const LEAST = 0.001;
const MOST = 1000;
const MAX_ITERATIONS = 60;
const PRECISION = 1e-4;

export type LogitSource = Pick<Predictor, 'shape' | 'predict'>;

/** Factors on each layer's logits before the softmax, (layers). */
export interface Sharpness {
  alpha: number[];
  chance: number[];
}

/** Derivatives of the summed negative log-likelihood. */
interface Derivatives {
  slope: number;
  curvature: number;
}

/**
 * Fits two factors per layer. With the α sharpness, the probabilities of the first topK predicted experts are nearest
 * to the router's, by KL divergence of predicted or not. With the chance sharpness, the router's choices are most
 * likely. Both are 1 if there is nothing to fit on. `heldOut` must not have been trained on.
 */
export function fitSharpness(
  network: LogitSource,
  stack: number,
  heldOut: readonly TeacherRecord[],
  model: RoutingShape,
): Sharpness {
  const { layers, experts } = network.shape;
  const { topK } = model;
  const records = sampled(heldOut, stack);
  const input = inputOf(records, stack, model);
  const tokens = input.tokens.length;
  const logits = new Float32Array(layers * tokens * experts);
  const entries = layers * tokens * topK;
  const named = { experts: new Uint16Array(entries), alpha: new Float32Array(entries) };
  if (tokens === 0 || !network.predict(input, topK, named.experts, named.alpha, undefined, logits)) {
    const ones = new Array<number>(layers).fill(1);
    return { alpha: ones, chance: ones };
  }
  const routed = routedOf(records, stack, model);
  // Use plain probabilities: if the model divides by their sum, it does so with the network's probabilities too.
  const probabilities = alphasOf(named.experts, topK, records, stack, { ...model, normalized: false });
  const fitted: Sharpness = { alpha: [], chance: [] };
  for (let layer = 0; layer < layers; layer++) {
    const [begin, end] = [layer * tokens, (layer + 1) * tokens];
    const own = logits.subarray(begin * experts, end * experts);
    const choices = routed.subarray(begin * topK, end * topK);
    const best = {
      experts: named.experts.subarray(begin * topK, end * topK),
      probabilities: probabilities.subarray(begin * topK, end * topK),
    };
    fitted.alpha.push(minimize((sharpness) => ofNamed(own, best, topK, experts, sharpness)));
    fitted.chance.push(minimize((sharpness) => ofChoices(own, choices, topK, experts, sharpness)));
  }
  return fitted;
}

/** Evenly spaced records, which hold about SAMPLE_TOKENS tokens. */
function sampled(records: readonly TeacherRecord[], stack: number): TeacherRecord[] {
  const tokens = records.reduce((sum, { stacks }) => sum + stacks[stack]!.tokens.length, 0);
  const stride = Math.max(1, Math.ceil(tokens / SAMPLE_TOKENS));
  return records.filter((_, i) => i % stride === 0);
}

/** Newton's method, bracketed by bounds that close in. */
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

/** Derivatives for the experts that the router chose, (tokens, topK). The loss is convex. */
function ofChoices(
  logits: Float32Array,
  choices: Uint16Array,
  topK: number,
  experts: number,
  sharpness: number,
): Derivatives {
  let [slope, curvature] = [0, 0];
  for (let t = 0; t * topK < choices.length; t++) {
    const row = logits.subarray(t * experts, (t + 1) * experts);
    const { mean, variance } = softmaxOf(row, sharpness);
    for (let i = t * topK; i < (t + 1) * topK; i++) {
      slope += mean - row[choices[i]!]!;
      curvature += variance;
    }
  }
  return { slope, curvature };
}

/**
 * Derivatives for drawing the predicted expert or another one, with the router's `probabilities` (tokens, topK). The
 * curvature is Gauss-Newton's, which is never negative.
 */
function ofNamed(
  logits: Float32Array,
  named: { experts: Uint16Array; probabilities: Float64Array },
  topK: number,
  experts: number,
  sharpness: number,
): Derivatives {
  let [slope, curvature] = [0, 0];
  const others = new Float32Array(experts - 1);
  named.experts.forEach((expert, i) => {
    const t = Math.floor(i / topK);
    const row = logits.subarray(t * experts, (t + 1) * experts);
    others.set(row.subarray(0, expert));
    others.set(row.subarray(expert + 1), expert);
    const { mean, logSum } = softmaxOf(others, sharpness);
    const said = 1 / (1 + Math.exp(logSum - sharpness * row[expert]!));
    const gap = row[expert]! - mean;
    slope += (said - named.probabilities[i]!) * gap;
    curvature += said * (1 - said) * gap * gap;
  });
  return { slope, curvature };
}

/** For softmax(sharpness · z): mean and variance of z, and the logarithm of the normalizing sum. */
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
