/** How often tables name the expert that the routers chose, layer by layer. */
import { layersOf, type RoutingShape, type Side } from '../predictor/hash-function.js';
import type { HashTable } from '../predictor/hash-table.js';
import type { TrueRouting } from './model-runner.js';

const TOP = 3;

export interface HitShares {
  /** Shares of the tokens whose expert is among the best 1, 2 and 3 named; a token of an unknown input is missed. */
  hits: [number, number, number];
  /** Mean |α − the router's probability| over the hits of the first; null without any. */
  alphaError: number | null;
}

export interface LayerHits extends HitShares {
  /** Tokens of inputs of which the function could not say anything. */
  unknown: number;
}

class Counter {
  tokens = 0;
  unknown = 0;
  readonly hits: [number, number, number] = [0, 0, 0];
  error = 0;

  get shares(): HitShares {
    const { tokens, hits, error } = this;
    const share = (count: number) => (tokens === 0 ? 0 : count / tokens);
    return {
      hits: [share(hits[0]), share(hits[1]), share(hits[2])],
      alphaError: hits[0] === 0 ? null : error / hits[0],
    };
  }
}

export class HitCounts {
  readonly #shape: RoutingShape;
  /** Encoder first. */
  readonly #counters: Counter[];

  constructor(shape: RoutingShape) {
    this.#shape = shape;
    const layers = shape.encoderLayers + shape.decoderLayers;
    this.#counters = Array.from({ length: layers }, () => new Counter());
  }

  /** `tokens` of one input. Null: the function could not say. */
  add(side: Side, table: HashTable | null, { routed, alpha }: TrueRouting, tokens: number): void {
    const layers = layersOf(this.#shape, side);
    const first = side === 'encoder' ? 0 : this.#shape.encoderLayers;
    for (let layer = 0; layer < layers; layer++) {
      const counter = this.#counters[first + layer]!;
      counter.tokens += tokens;
      if (table === null) {
        counter.unknown += tokens;
        continue;
      }
      const begin = layer * tokens;
      const truth = { routed: routed.subarray(begin, begin + tokens), alpha: alpha.subarray(begin) };
      count(counter, table, begin, truth);
    }
  }

  /** Of each layer, encoder first. */
  result(): LayerHits[] {
    return this.#counters.map(({ shares, unknown }) => ({ ...shares, unknown }));
  }
}

function count(counter: Counter, { experts, alpha, k }: HashTable, begin: number, truth: TrueRouting): void {
  for (let t = 0; t < truth.routed.length; t++) {
    const at = (begin + t) * k;
    const rank = experts.subarray(at, at + Math.min(k, TOP)).indexOf(truth.routed[t]!);
    if (rank < 0) continue;
    for (let n = rank; n < TOP; n++) counter.hits[n]! += 1;
    if (rank === 0) counter.error += Math.abs(alpha[at]! - truth.alpha[t]!);
  }
}
