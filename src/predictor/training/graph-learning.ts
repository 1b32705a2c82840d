/** Learns the hash graph: counts of neighbouring layers' best experts. */

import type { GraphSide } from '../functions/graph.js';
import { HashGraph } from '../functions/graph.js';
import { layersOf, type RoutingShape, SIDES, type Side } from '../hash-function.js';
import { routerProbabilities } from './router-probabilities.js';
import type { TeacherRecord } from './teacher.js';

/** The next layer's overall frequencies count as this many tokens of each expert. */
const PRIOR_WEIGHT = 8;

interface Counts {
  tokens: number;
  /** (L, E). */
  wins: Float64Array;
  /** Sum of the probabilities of winning experts; (L, E). */
  sureness: Float64Array;
  /** (L - 1, E, E). */
  pairs: Float64Array;
}

/** Memory is that of the graph, however long the trace. */
export class GraphLearner {
  readonly #shape: RoutingShape;
  readonly #counts: Record<Side, Counts>;

  constructor(shape: RoutingShape) {
    this.#shape = shape;
    const { experts } = shape;
    const counts = (side: Side): Counts => {
      const layers = layersOf(shape, side);
      return {
        tokens: 0,
        wins: new Float64Array(layers * experts),
        sureness: new Float64Array(layers * experts),
        pairs: new Float64Array(Math.max(0, layers - 1) * experts * experts),
      };
    };
    this.#counts = { encoder: counts('encoder'), decoder: counts('decoder') };
  }

  add(record: TeacherRecord): void {
    const { top } = record;
    const { experts: perLayer } = this.#shape;
    const probabilities = new Float64Array(top);
    for (const side of SIDES) {
      const { tokens, experts, logits } = record[side];
      const counts = this.#counts[side];
      const layers = layersOf(this.#shape, side);
      counts.tokens += tokens.length;
      for (let t = 0; t < tokens.length; t++) {
        for (let layer = 0, before = 0; layer < layers; layer++) {
          const from = (layer * tokens.length + t) * top;
          const best = experts[from]!;
          routerProbabilities(logits, from, top, perLayer, probabilities);
          counts.wins[layer * perLayer + best]!++;
          counts.sureness[layer * perLayer + best]! += probabilities[0]!;
          if (layer > 0) counts.pairs[((layer - 1) * perLayer + before) * perLayer + best]!++;
          before = best;
        }
      }
    }
  }

  /** The graph of all records added so far. */
  finish(): HashGraph {
    const side = (name: Side) => graphSide(this.#counts[name], this.#shape.experts);
    return new HashGraph(this.#shape, { encoder: side('encoder'), decoder: side('decoder') });
  }
}

function graphSide(counts: Counts, experts: number): GraphSide {
  const { tokens, wins, sureness, pairs } = counts;
  // One more of each, so that no expert is impossible.
  const frequencies = Float32Array.from(wins, (n) => (n + 1) / (tokens + experts));
  const transitions = new Float32Array(pairs.length);
  for (let row = 0; row < pairs.length / experts; row++) {
    const next = (Math.floor(row / experts) + 1) * experts;
    for (let f = 0; f < experts; f++) {
      const prior = PRIOR_WEIGHT * frequencies[next + f]!;
      transitions[row * experts + f] = (pairs[row * experts + f]! + prior) / (wins[row]! + PRIOR_WEIGHT);
    }
  }
  const alpha = Float32Array.from(wins, (n, i) => (n === 0 ? 1 / experts : sureness[i]! / n));
  return { frequencies, transitions, alpha };
}
