/** Chooses, on held-out records, how strongly the hash graph corrects a hash function's tables. */
import type { HashGraph, RefinerSettings } from '../functions/graph.js';
import { type HashFunction, layersOf, type Side } from '../hash-function.js';
import { inputOf, routedOf } from './hit-rates.js';
import type { TeacherRecord } from './teacher.js';

/** Ranks of a table that are weighed one by one. */
const RANKS = 8;
const EXPONENTS = [0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1, 1.25, 1.5] as const;

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
  const settings = {
    exponents: new Float32Array(layers * layers),
    ranks: new Float32Array(layers * layers * k),
  };
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
      const ranks = rankProbabilities(experts.subarray(first, end), ofLayer(to), k, graph.shape.experts);
      let best = {
        hits: hitsOf(experts.subarray(first, end), ofLayer(to), k),
        exponent: 0,
        experts: experts.slice(first, end),
        alpha: alpha.slice(first, end),
        chance: chance.slice(first, end),
      };
      for (const exponent of EXPONENTS) {
        const tried = {
          hits: 0,
          exponent,
          experts: experts.slice(first, end),
          alpha: alpha.slice(first, end),
          chance: chance.slice(first, end),
        };
        graph
          .rescorer(side, from, to, exponent, ranks)
          .rescore(ofLayer(from), k, tried.experts, tried.alpha, tried.chance);
        tried.hits = hitsOf(tried.experts, ofLayer(to), k);
        if (exponent > 0 && tried.hits > best.hits) best = tried;
      }
      const at = from * layers + to;
      settings.exponents[at] = best.exponent;
      settings.ranks.set(ranks, at * k);
      experts.set(best.experts, first);
      alpha.set(best.alpha, first);
      chance.set(best.chance, first);
    }
  }
  return settings;
}

function hitsOf(table: Uint16Array, truth: Uint16Array, k: number): number {
  return truth.reduce((hits, expert, t) => hits + (table[t * k] === expert ? 1 : 0), 0);
}

/** Share of tokens whose true expert stands at each rank of `table` (tokens, k), one more counted for every expert. */
export function rankProbabilities(
  table: Uint16Array,
  truth: Uint16Array,
  k: number,
  experts: number,
): Float32Array<ArrayBuffer> {
  const counts = new Float32Array(k).fill(1);
  for (let t = 0; t < truth.length; t++) {
    const rank = table.subarray(t * k, (t + 1) * k).indexOf(truth[t]!);
    if (rank >= 0) counts[rank]!++;
  }
  return counts.map((count) => count / (truth.length + experts));
}
