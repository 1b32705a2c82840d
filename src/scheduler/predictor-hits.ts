/** Counts how often tables named the experts that routers then chose. */
import { type NativeBatch, NO_EXPERT, type RunResult } from '../native/addon-types.js';
import { recallWidths } from '../predictor/hit-ranks.js';
import type { PassForecast, TableRows } from '../predictor/pass-forecast.js';
import type { HashTable } from '../protocol/hash-table.js';

/**
 * Sums over routings that a table predicted. A routing is one token sent to one of its experts in a MoE layer.
 * Routings dropped for capacity are not counted.
 */
export interface Hits {
  predicted: number;
  /** Routings whose expert was among the table's first entries: see `recallWidths`. */
  narrow: number;
  wide: number;
}

export class PredictorHits {
  readonly total: Hits = { predicted: 0, narrow: 0, wide: 0 };
  readonly #topK: number;

  /** `topK`: experts that the routers choose for a token. */
  constructor(topK: number) {
    this.#topK = topK;
  }

  /** Returns the hits of each sequence of a pass; null without a table, or if the table routes. */
  count(
    result: Pick<RunResult, 'dispatch' | 'layers'>,
    batch: NativeBatch,
    { predicted, routingK }: Pick<PassForecast, 'predicted' | 'routingK'>,
  ): Hits[] | null {
    if (predicted === null || routingK > 0) return null;
    return Array.from(batch.sequences, (_, i) => this.#ofSequence(result, batch, i, predicted));
  }

  #ofSequence(
    { dispatch, layers }: Pick<RunResult, 'dispatch' | 'layers'>,
    batch: NativeBatch,
    sequence: number,
    { table, rows }: TableRows,
  ): Hits {
    const tokens = batch.tokens.length;
    const chosen = dispatch.length / (layers.length * tokens);
    const { narrow, wide } = recallWidths(this.#topK);
    const hits: Hits = { predicted: 0, narrow: 0, wide: 0 };
    for (let layer = 0; layer < layers.length; layer++) {
      for (let t = batch.offsets[sequence]!; t < batch.offsets[sequence + 1]!; t++) {
        const at = (layer * table.tokens + rows[t]!) * table.k;
        if (table.experts[at] === NO_EXPERT) continue;
        for (let i = 0; i < chosen; i++) {
          const expert = dispatch[(layer * tokens + t) * chosen + i]!;
          if (expert === NO_EXPERT) continue;
          hits.predicted += 1;
          const rank = rankOf(expert, table, at);
          if (rank < narrow) hits.narrow += 1;
          if (rank < wide) hits.wide += 1;
        }
      }
    }
    this.total.predicted += hits.predicted;
    this.total.narrow += hits.narrow;
    this.total.wide += hits.wide;
    return hits;
  }
}

/** Index of the expert in the token's table row, or infinity if the row does not contain it. */
function rankOf(expert: number, { experts, k }: HashTable, at: number): number {
  let rank = 0;
  while (rank < k && experts[at + rank] !== expert) rank += 1;
  return rank === k ? Number.POSITIVE_INFINITY : rank;
}
