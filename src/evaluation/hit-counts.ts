/** Counts per layer how often tables name the experts that the routers chose. */
import { firstLayerOf, layersOf, type RoutingShape } from '../predictor/hash-function.js';
import { countHits, hitRanks } from '../predictor/hit-ranks.js';
import type { HashTable } from '../protocol/hash-table.js';
import type { TrueRouting } from './model-runner.js';

export interface HitShares {
  /**
   * Shares of the router's choices that the table names within its top ranks, for each of hitRanks(). Choices for an
   * unknown input count as misses.
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

  /** Counts the `tokens` tokens of one input. `table` is null when the function has no forecast. */
  add(stack: number, table: HashTable | null, routing: TrueRouting, tokens: number): void {
    const first = firstLayerOf(this.#shape, stack);
    for (let layer = 0; layer < this.#shape.stacks[stack]!.layers; layer++) {
      const counter = this.#counters[first + layer]!;
      counter.tokens += tokens;
      if (table === null) counter.unknown += tokens;
      else this.#count(counter, table, routing, layer * tokens, tokens);
    }
  }

  #count(counter: Counter, table: HashTable, truth: TrueRouting, begin: number, tokens: number): void {
    const { topK } = this.#shape;
    const { k } = table;
    for (let row = begin; row < begin + tokens; row++) {
      const named = table.experts.subarray(row * k, (row + 1) * k);
      countHits(counter.hits, this.#ranks, truth.experts.subarray(row * topK, (row + 1) * topK), named);
      if (named[0] !== truth.experts[row * topK]) continue;
      counter.firsts += 1;
      counter.error += Math.abs(table.alpha[row * k]! - truth.alpha[row * topK]!);
    }
  }

  /** One result per MoE layer of the model. */
  result(): LayerHits[] {
    const { topK } = this.#shape;
    return this.#counters.map(({ tokens, hits, firsts, error, unknown }) => ({
      hits: hits.map((count) => (tokens === 0 ? 0 : count / (tokens * topK))),
      alphaError: firsts === 0 ? null : error / firsts,
      unknown,
    }));
  }
}
