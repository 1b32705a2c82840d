/** How sharp a network's logits must be made for their softmax to be the chance of each expert. */
import type { Predictor } from '../../native/addon-types.js';
import type { Side } from '../hash-function.js';
import { inputOf, routedOf } from './hit-rates.js';
import type { TeacherRecord } from './teacher.js';

/** Enough for one number a layer; bounds the logits that are held. */
const SAMPLE_TOKENS = 8192;
const LEAST = 0.01;
const MOST = 1000;
const MAX_ITERATIONS = 60;
const PRECISION = 1e-4;

export type LogitSource = Pick<Predictor, 'shape' | 'predict'>;

/**
 * For each layer the β under which softmax(β · logits) makes the recorded best experts most likely; 1 where there is
 * nothing to fit it on. `heldOut` was not learned from.
 */
export function fitSharpness(network: LogitSource, side: Side, heldOut: readonly TeacherRecord[]): number[] {
  const { layers, experts } = network.shape;
  const records = sampled(heldOut, side);
  const input = inputOf(records, side);
  const tokens = input.tokens.length;
  const logits = new Float32Array(layers * tokens * experts);
  const best = { experts: new Uint16Array(layers * tokens), alpha: new Float32Array(layers * tokens) };
  if (tokens === 0 || !network.predict(input, 1, best.experts, best.alpha, undefined, logits)) {
    return new Array<number>(layers).fill(1);
  }
  const routed = routedOf(records, side, layers);
  return Array.from({ length: layers }, (_, layer) => {
    const rows = [layer * tokens, (layer + 1) * tokens] as const;
    return fitLayer(logits.subarray(rows[0] * experts, rows[1] * experts), routed.subarray(...rows), experts);
  });
}

/** Evenly apart, of about SAMPLE_TOKENS tokens. */
function sampled(records: readonly TeacherRecord[], side: Side): TeacherRecord[] {
  const tokens = records.reduce((sum, record) => sum + record[side].tokens.length, 0);
  const stride = Math.max(1, Math.ceil(tokens / SAMPLE_TOKENS));
  return records.filter((_, i) => i % stride === 0);
}

/** Newton's method, held between bounds that close in: the negative log-likelihood is convex in β. */
function fitLayer(logits: Float32Array, truth: Uint16Array, experts: number): number {
  let [low, high, beta] = [LEAST, MOST, 1];
  for (let i = 0; i < MAX_ITERATIONS; i++) {
    const { slope, curvature } = derivatives(logits, truth, experts, beta);
    if (slope > 0) high = beta;
    else low = beta;
    const newton = beta - slope / curvature;
    const next = newton > low && newton < high ? newton : Math.sqrt(low * high);
    if (Math.abs(next - beta) <= PRECISION * beta) return next;
    beta = next;
  }
  return beta;
}

/** Of the summed negative log-likelihood at β. */
function derivatives(logits: Float32Array, truth: Uint16Array, experts: number, beta: number) {
  let slope = 0;
  let curvature = 0;
  for (let t = 0; t < truth.length; t++) {
    const row = logits.subarray(t * experts, (t + 1) * experts);
    let top = Number.NEGATIVE_INFINITY;
    for (let e = 0; e < experts; e++) if (row[e]! > top) top = row[e]!;
    let [sum, first, second] = [0, 0, 0];
    for (let e = 0; e < experts; e++) {
      const below = row[e]! - top;
      const p = Math.exp(beta * below);
      sum += p;
      first += p * below;
      second += p * below * below;
    }
    const mean = first / sum;
    slope += mean - (row[truth[t]!]! - top);
    curvature += second / sum - mean * mean;
  }
  return { slope, curvature };
}
