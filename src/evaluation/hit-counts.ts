/** How often tables name the expert that the routers chose, layer by layer, with and without refining. */
import { layersOf, type RoutingShape, type Side, type TableRefiner } from '../predictor/hash-function.js';
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
  /** Once the true experts of the layers before are known; only with a refiner. */
  refined?: HitShares;
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
  readonly #refiner: TableRefiner | undefined;
  /** Encoder first. */
  readonly #raw: Counter[];
  readonly #refined: Counter[];

  constructor(shape: RoutingShape, refiner?: TableRefiner) {
    this.#shape = shape;
    this.#refiner = refiner;
    const counters = () =>
      Array.from({ length: shape.encoderLayers + shape.decoderLayers }, () => new Counter());
    this.#raw = counters();
    this.#refined = counters();
  }

  /** `tokens` of one input; the table is left as it is. Null: the function could not say. */
  add(side: Side, table: HashTable | null, { routed, alpha }: TrueRouting, tokens: number): void {
    const layers = layersOf(this.#shape, side);
    const first = side === 'encoder' ? 0 : this.#shape.encoderLayers;
    for (let layer = 0; layer < layers; layer++) {
      for (const counters of [this.#raw, this.#refined]) {
        counters[first + layer]!.tokens += tokens;
        if (table === null) counters[first + layer]!.unknown += tokens;
      }
    }
    if (table === null) return;
    const { k } = table;
    const refined = {
      experts: table.experts.slice(),
      alpha: table.alpha.slice(),
      chance: table.chance.slice(),
    };
    for (let layer = 0; layer < layers; layer++) {
      const begin = layer * tokens;
      const truth = { routed: routed.subarray(begin, begin + tokens), alpha: alpha.subarray(begin) };
      count(this.#raw[first + layer]!, table, k, begin, truth);
      if (this.#refiner === undefined) continue;
      count(this.#refined[first + layer]!, refined, k, begin, truth);
      const { experts, alpha: scale, chance } = refined;
      this.#refiner.refine(side, layer, truth.routed, layers, tokens, k, experts, scale, chance);
    }
  }

  /** Of each layer, encoder first. */
  result(): LayerHits[] {
    return this.#raw.map((counter, i) => ({
      ...counter.shares,
      unknown: counter.unknown,
      ...(this.#refiner && { refined: this.#refined[i]!.shares }),
    }));
  }
}

function count(
  counter: Counter,
  { experts, alpha }: Pick<HashTable, 'experts' | 'alpha'>,
  k: number,
  begin: number,
  truth: TrueRouting,
): void {
  for (let t = 0; t < truth.routed.length; t++) {
    const at = (begin + t) * k;
    const rank = experts.subarray(at, at + Math.min(k, TOP)).indexOf(truth.routed[t]!);
    if (rank < 0) continue;
    for (let n = rank; n < TOP; n++) counter.hits[n]! += 1;
    if (rank === 0) counter.error += Math.abs(alpha[at]! - truth.alpha[t]!);
  }
}
