/** Counts per layer how often predicted experts are those that the routers chose. */

import { countHits, hitRanks } from '../forecast/hit-ranks.js';
import { firstLayerOf, layersOf, type NamedExperts, type RoutingShape } from './hash-function.js';

/** The routers' choices for some tokens, (layers, tokens, topK). */
export interface TrueRouting {
  /** The experts that the routers chose, by falling logit. Expert capacity is ignored. */
  experts: Uint16Array;
  /** Top-k weights: probabilities over all experts of the layer, or renormalised over the chosen ones. */
  alpha: Float32Array;
}

export interface HitShares {
  /**
   * Shares of the router's choices within the first predicted experts, for each of hitRanks(). Choices for an unknown
   * input count as misses.
   */
  hits: number[];
  /** Mean |α − the router's α| over the tokens whose first choice is right. Null when there are none. */
  alphaError: number | null;
}

export interface LayerHits extends HitShares {
  /** Tokens of inputs for which the function has no forecast. */
  unknown: number;
}

class Counter {
  tokens = 0;
  unknown = 0;
  readonly hits: number[];
  /** Sum of the router's α of its first choice. */
  alpha = 0;
  /** Tokens whose first predicted expert is the router's first, and the sum of their absolute errors in α. */
  firsts = 0;
  error = 0;

  constructor(ranks: readonly number[]) {
    this.hits = ranks.map(() => 0);
  }
}

export class HitCounts {
  readonly #shape: RoutingShape;
  readonly #ranks: number[];
  /** One per MoE layer, in the order of the model. */
  readonly #counters: Counter[];

  constructor(shape: RoutingShape) {
    this.#shape = shape;
    this.#ranks = hitRanks(shape.topK);
    this.#counters = Array.from({ length: layersOf(shape) }, () => new Counter(this.#ranks));
  }

  /** Counts `tokens` tokens of a stack. `named` is null when the function has no forecast. */
  add(
    stack: number,
    named: NamedExperts | null,
    { experts, alpha }: Pick<TrueRouting, 'experts'> & Partial<TrueRouting>,
    tokens: number,
  ): void {
    const { stacks, topK } = this.#shape;
    const first = firstLayerOf(this.#shape, stack);
    for (let row = 0; row < stacks[stack]!.layers * tokens; row++) {
      const counter = this.#counters[first + Math.floor(row / tokens)]!;
      counter.tokens += 1;
      counter.alpha += alpha?.[row * topK] ?? 0;
      if (named === null) {
        counter.unknown += 1;
        continue;
      }
      const own = named.experts.subarray(row * named.k, (row + 1) * named.k);
      countHits(counter.hits, this.#ranks, experts.subarray(row * topK, (row + 1) * topK), own);
      if (alpha === undefined || own[0] !== experts[row * topK]) continue;
      counter.firsts += 1;
      counter.error += Math.abs(named.alpha[row * named.k]! - alpha[row * topK]!);
    }
  }

  /** One result per MoE layer of the model, with the mean α of the router's first choice. */
  result(): (LayerHits & { tokens: number; alpha: number })[] {
    const { topK } = this.#shape;
    return this.#counters.map(({ tokens, hits, alpha, firsts, error, unknown }) => ({
      tokens,
      alpha: alpha / tokens,
      hits: hits.map((count) => (tokens === 0 ? 0 : count / (tokens * topK))),
      alphaError: firsts === 0 ? null : error / firsts,
      unknown,
    }));
  }
}
