/** Chooses, on held-out records, how strongly the hash graph corrects a hash function's tables. */
import type { HashGraph, RefinerSettings } from '../functions/graph.js';
import { type HashFunction, layersOf, type Side } from '../hash-function.js';
import { inputOf, routedOf } from './hit-rates.js';
import type { TeacherRecord } from './teacher.js';

/** Experts of a token that are weighed one by one. */
const RANKS = 8;
/** Of an expert that a table rules out: no single token may decide. */
const LEAST_CHANCE = 1e-4;
/** In nats a token: refining takes time, and what it gains below this is worth none. */
const LEAST_GAIN = 0.01;
const EXPONENTS = [0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1, 1.25, 1.5] as const;

export function tuneRefiner(
  graph: HashGraph,
  hash: HashFunction,
  heldOut: readonly TeacherRecord[],
): Record<Side, RefinerSettings> {
  return {
    encoder: tuneSide(graph, hash, heldOut, 'encoder'),
    decoder: tuneSide(graph, hash, heldOut, 'decoder'),
  };
}

/** Goes through the layers as a pass does, so that each exponent allows for what earlier layers already told. */
function tuneSide(
  graph: HashGraph,
  hash: HashFunction,
  heldOut: readonly TeacherRecord[],
  side: Side,
): RefinerSettings {
  const layers = layersOf(graph.shape, side);
  const k = Math.min(RANKS, graph.shape.experts);
  const settings = { exponents: new Float32Array(layers * layers) };
  const input = inputOf(heldOut, side);
  const tokens = input.tokens.length;
  const experts = new Uint16Array(layers * tokens * k);
  const alpha = new Float32Array(experts.length);
  const chance = new Float32Array(experts.length);
  // A function that does not know this side is not refined there.
  if (tokens === 0 || !hash.fill(side, input, k, experts, alpha, chance)) return settings;
  const truth = routedOf(heldOut, side, layers);
  const ofLayer = (layer: number) => truth.subarray(layer * tokens, (layer + 1) * tokens);
  for (let from = 0; from < layers; from++) {
    for (let to = from + 1; to < layers; to++) {
      const [first, end] = [to * tokens * k, (to + 1) * tokens * k];
      const copy = (exponent: number) => ({
        exponent,
        experts: experts.slice(first, end),
        alpha: alpha.slice(first, end),
        chance: chance.slice(first, end),
      });
      const surprise = (said: Pick<ReturnType<typeof copy>, 'experts' | 'chance'>) =>
        surpriseOf(said.experts, said.chance, ofLayer(to), k, graph.shape.experts);
      const unrefined = copy(0);
      let best = { ...unrefined, surprise: surprise(unrefined) - LEAST_GAIN * tokens };
      for (const exponent of EXPONENTS) {
        const tried = copy(exponent);
        graph
          .rescorer(side, from, to, exponent)
          .rescore(ofLayer(from), k, tried.experts, tried.alpha, tried.chance);
        const its = surprise(tried);
        if (its < best.surprise) best = { ...tried, surprise: its };
      }
      const at = from * layers + to;
      settings.exponents[at] = best.exponent;
      experts.set(best.experts, first);
      alpha.set(best.alpha, first);
      chance.set(best.chance, first);
    }
  }
  return settings;
}

/** Negative log-likelihood of the true experts; those that are not named share what the named ones leave. */
function surpriseOf(
  experts: Uint16Array,
  chance: Float32Array,
  truth: Uint16Array,
  k: number,
  perLayer: number,
): number {
  let surprise = 0;
  truth.forEach((expert, t) => {
    let [p, rest, others] = [0, 1, perLayer];
    for (let i = t * k; i < (t + 1) * k; i++) {
      if (experts[i]! >= perLayer) continue;
      rest -= chance[i]!;
      others--;
      if (experts[i] === expert) p = chance[i]!;
    }
    const shared = others > 0 ? Math.max(0, rest) / others : 0;
    surprise -= Math.log(Math.max(p > 0 ? p : shared, LEAST_CHANCE));
  });
  return surprise;
}
