/** Estimates how fast one request is answered, from the rates of this machine. */

import type { MemoryPlan, ModelShape } from '../native/addon-types.js';
import { hasEncoder } from '../native/model-shape.js';

export interface MachineRates {
  /** Bytes of weights in memory that all threads together multiply by the activations of one token. */
  weights: number;
  /** Bytes that are read from disk, in reads of one expert. */
  disk: number;
}

export interface SpeedEstimate {
  /** Where routing is even: a token then finds the same share of its experts in memory. */
  tokensPerSecond: number;
  /** Where tokens repeat experts, so that all are found in memory. */
  mostTokensPerSecond: number;
  /** What takes the larger part of a token's time. */
  bound: 'memory' | 'disk';
  computeMs: number;
  loadMs: number;
  /** How many times as fast prediction could make it: see `overlapBound`. */
  mostSpeedup: number;
}

/** How many times as fast work gets at most when its computation and its loads overlap. Both in one unit of time. */
export function overlapBound(compute: number, load: number): number {
  return (compute + load) / Math.max(compute, load);
}

/** To pick a token and stream its text. Only tiny models compute for less. As measured on two cores. */
const STREAM_MS = 0.4;

/** Of a decoder-only model with `slots` for its experts. Short contexts; no load is hidden behind computation. */
export function estimateSpeed(
  plan: MemoryPlan,
  slots: number,
  shape: ModelShape | null,
  { weights, disk }: MachineRates,
): SpeedEstimate | undefined {
  if ((shape !== null && hasEncoder(shape)) || plan.experts === 0) return undefined;
  const computeMs = STREAM_MS + (1e3 * (plan.tokenDense + plan.tokenDemand)) / weights;
  const loadMs = (1e3 * plan.tokenDemand * (1 - slots / plan.experts)) / disk;
  const bound = computeMs >= loadMs ? 'memory' : 'disk';
  const tokensPerSecond = 1e3 / (computeMs + loadMs);
  const mostSpeedup = overlapBound(computeMs, loadMs);
  return { tokensPerSecond, mostTokensPerSecond: 1e3 / computeMs, bound, computeMs, loadMs, mostSpeedup };
}
