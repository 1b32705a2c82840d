/** Measures native passes by kind, and tells from it what a pass of so many tokens costs. */
import { clockMs } from '../clock.js';
import type { MemoryPlan, ModelShape, RunStats } from '../native/addon-types.js';
import { firstMoeLayer } from '../native/model-shape.js';
import type { Fit, PassRates, PassSums } from '../protocol/quote.js';
import { NO_FIT, solve, withObservation } from './least-squares.js';

/** What is left of the measured passes after one more: about the last 50 count. */
const KEPT = 0.98;

/** What passes of a stack read. */
export interface StackCost {
  /** Experts of each MoE layer. */
  layerExperts: readonly number[];
  topK: number;
  /** Bytes of dense weights and of one expert. */
  dense: number;
  expertBytes: number;
}

export function stackCosts(
  shape: Pick<ModelShape, 'stacks' | 'topK'>,
  { layerExperts, blockBytes, tokenDense }: Pick<MemoryPlan, 'layerExperts' | 'blockBytes' | 'tokenDense'>,
): StackCost[] {
  const layers = shape.stacks.reduce((sum, stack) => sum + stack.layers, 0);
  return shape.stacks.map((stack, index) => {
    const first = firstMoeLayer(shape, index);
    const bytes = blockBytes.slice(first, first + stack.moeLayers.length);
    return {
      layerExperts: layerExperts.slice(first, first + stack.moeLayers.length),
      topK: shape.topK,
      dense: (tokenDense * stack.layers) / layers,
      expertBytes: bytes.reduce((sum, each) => sum + each, 0) / Math.max(1, bytes.length),
    };
  });
}

/** Passes that feed each sequence one token are measured apart: they read weights for little work. */
export function passKind(stack: number, tokens: number, sequences: number): number {
  return 2 * stack + (tokens > sequences ? 0 : 1);
}

export function noSums(): PassSums {
  const none = { passes: 0, needed: 0, missed: 0, stallSeconds: 0 };
  return { ...none, spread: NO_FIT, misses: NO_FIT, time: NO_FIT };
}

export class PassMeter {
  readonly #costs: readonly StackCost[];
  readonly #sums: PassSums[];
  readonly #clock: () => number;
  /** End of the last pass; undefined after a rest. */
  #endMs: number | undefined;

  constructor(costs: readonly StackCost[], clock = clockMs) {
    this.#costs = costs;
    this.#clock = clock;
    this.#sums = costs.flatMap(() => [noSums(), noSums()]);
  }

  add(
    { stack, tokens, sequences }: { stack: number; tokens: number; sequences: number },
    { needed, prefetched, late, onDemand, stallNs: waitedNs, peerWaitNs, passNs }: RunStats,
  ): void {
    const cost = this.#costs[stack]!;
    const sums = this.#sums[passKind(stack, tokens, sequences)]!;
    for (const name of ['passes', 'needed', 'missed', 'stallSeconds'] as const) sums[name] *= KEPT;
    // Peers compute while a pass waits for them: that is time of passes, not of loads.
    const stallNs = waitedNs - peerWaitNs;
    sums.passes += 1;
    sums.needed += needed;
    sums.missed += prefetched + late + onDemand;
    sums.stallSeconds += stallNs / 1e9;
    // What the thread does between two passes is a part of the second one.
    const now = this.#clock();
    const tookNs = this.#endMs === undefined ? passNs : Math.max(passNs, (now - this.#endMs) * 1e6);
    this.#endMs = now;
    const seconds = Math.max(1, tookNs - stallNs) / 1e9;
    const read = cost.dense + needed * cost.expertBytes;
    sums.time = withObservation(sums.time, [read / seconds, tokens / seconds, 1], KEPT);
    if (needed === 0) return;
    if (tokens > 1) sums.spread = withObservation(sums.spread, spreadOf(cost, tokens, needed), KEPT);
    const missed = prefetched + late + onDemand;
    sums.misses = withObservation(sums.misses, [1, needed / allOf(cost), missed / needed], KEPT);
  }

  /** The thread has waited for work. */
  rested(): void {
    this.#endMs = undefined;
  }

  /** A copy. */
  rates(slots: number): PassRates {
    return { sums: this.#sums.map((each) => ({ ...each })), slots };
  }
}

/** Different experts that so many tokens need in all layers together where every choice is equally likely. */
function evenNeed({ layerExperts, topK }: StackCost, tokens: number): number {
  let sum = 0;
  let last = 0;
  let needed = 0;
  for (const experts of layerExperts) {
    // Layers are mostly alike, and each pass asks.
    if (experts !== last) needed = experts * (1 - Math.max(0, 1 - topK / experts) ** tokens);
    last = experts;
    sum += needed;
  }
  return sum;
}

/** The logarithm of how many even tokens need as many experts, by a constant and by that of the tokens. */
function spreadOf(cost: StackCost, tokens: number, needed: number): [number, number, number] {
  const all = allOf(cost);
  const unneeded = Math.log(1 - Math.min(MOST_NEEDED, evenNeed(cost, 1) / all));
  const share = Math.min(MOST_NEEDED, needed / all);
  const even = Math.max(1, Math.log(1 - share) / unneeded);
  // What an error of the logarithm means for the experts: little where nearly all are needed.
  const weight = (-even * unneeded * (1 - share)) / share;
  return [weight, weight * Math.log(tokens), weight * Math.log(even)];
}

function allOf({ layerExperts }: StackCost): number {
  return Math.max(
    1,
    layerExperts.reduce((sum, experts) => sum + experts, 0),
  );
}

/** What is known before a pass has run. */
export interface Prior {
  /** Share of the experts that are not on the device. */
  absent: number;
  /** Seconds that the load of a byte takes. */
  loadSeconds: number;
}

export interface PassCost {
  seconds: number;
  needed: number;
  bytes: number;
}

/** Bytes of weights that a machine multiplies in a second, before it is measured. */
const UNMEASURED_RATE = 5e9;
/** Tokens whose products take as long as the reading of the weights, before it is measured. */
const UNMEASURED_TOKENS = 16;

/** Share of the experts above which it tells nothing about tokens. */
const MOST_NEEDED = 1 - 1e-6;

/** Passes that tell two rates of misses apart. */
const LEAST_PASSES = 8;

export function passCost(cost: StackCost, sums: PassSums, tokens: number, prior: Prior): PassCost {
  const one = evenNeed(cost, 1);
  const needed = evenNeed(cost, evenTokens(sums.spread, tokens));
  // One token's experts stand for what is known before: they matter only until passes have run.
  const absent = (sums.missed + prior.absent * one) / Math.max(1, sums.needed + one);
  // The more experts tokens need, the rarer are the last of them, and the rarely needed are not on the device.
  const [share, grows] = (sums.passes >= LEAST_PASSES && solve(sums.misses)) || [absent, 0];
  const missed = needed * Math.min(1, share + grows * (needed / allOf(cost)));
  const stall = (sums.stallSeconds + prior.loadSeconds * cost.expertBytes) / (sums.missed + 1);
  const [perByte, perToken] = fitted(cost, sums);
  const read = cost.dense + needed * cost.expertBytes;
  return {
    seconds: perByte * read + perToken * tokens + missed * stall,
    needed,
    bytes: missed * cost.expertBytes,
  };
}

/** Tokens of one text choose more alike than even ones: so many even ones need as many experts. */
function evenTokens(spread: Fit, tokens: number): number {
  if (tokens <= 1 || spread[2] === 0) return tokens;
  const [constant, power] = solve(spread) ?? [0, spread[4] / spread[2]];
  return Math.min(tokens, Math.max(1, Math.exp(constant) * tokens ** power));
}

/** Seconds a byte and a token, from the least squares of the relative errors. */
function fitted(cost: StackCost, { passes, time }: PassSums): [number, number] {
  const perByte = 1 / UNMEASURED_RATE;
  const perToken = (perByte * (cost.dense + evenNeed(cost, 1) * cost.expertBytes)) / UNMEASURED_TOKENS;
  if (passes === 0) return [perByte, perToken];
  const found = solve(time);
  if (found !== undefined) return found;
  // The passes were too alike to tell bytes from tokens.
  const [xx, xy, yy, x, y] = time;
  const all = perByte * perByte * xx + 2 * perByte * perToken * xy + perToken * perToken * yy;
  const scale = (perByte * x + perToken * y) / all;
  return [scale * perByte, scale * perToken];
}
