/** Judges tables by the observed routing: predictor hits and the bytes of Belady's rule. */
import { type NativeBatch, NO_EXPERT, type RunResult } from '../native/addon-types.js';
import { neededExperts } from '../native/needed-experts.js';
import { recallWidths } from '../predictor/hit-ranks.js';
import type { PassForecast, TableRows } from '../predictor/pass-forecast.js';
import type { HashTable } from '../protocol/hash-table.js';
import type { Belady } from './belady.js';

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

export interface Verdict {
  /** One entry per sequence of the pass; null if there is no table to judge. */
  hits: Hits[] | null;
  /** Flat ids that Belady's rule would have loaded; null if no job asks for them. */
  beladyLoads: Set<number> | null;
}

interface RoutingQualityOptions {
  expertsPerLayer: number;
  /** Experts that the routers choose for a token. */
  topK: number;
  belady: Belady;
  /** Whether the job's answer reports its cost. */
  explains: (job: number) => boolean;
  /** Called with the flat ids that each layer of a pass needed. */
  onVisit?: (ids: readonly number[]) => void;
}

export class RoutingQuality {
  readonly #options: RoutingQualityOptions;
  readonly #total: Hits = { predicted: 0, narrow: 0, wide: 0 };
  #batch = 0;

  constructor(options: RoutingQualityOptions) {
    this.#options = options;
  }

  get total(): Readonly<Hits> {
    return this.#total;
  }

  /** Assigns the following passes to the next batch. The look-ahead counts batches. */
  nextBatch(): void {
    this.#batch += 1;
  }

  judge(
    result: RunResult,
    jobs: readonly number[],
    batch: NativeBatch,
    { predicted, routingK }: Pick<PassForecast, 'predicted' | 'routingK'>,
  ): Verdict {
    const { belady, expertsPerLayer, explains, onVisit } = this.#options;
    for (const ids of neededExperts(result, expertsPerLayer)) {
      belady.add({ batch: this.#batch, ids });
      onVisit?.(ids);
    }
    const beladyLoads = jobs.some(explains) ? new Set(belady.lastLoads(result.layers.length).flat()) : null;
    // If the table routes, there is no observed routing to judge it by.
    const hits =
      predicted && routingK === 0 ? jobs.map((_, i) => this.#hits(result, batch, i, predicted)) : null;
    return { hits, beladyLoads };
  }

  #hits({ dispatch, layers }: RunResult, batch: NativeBatch, sequence: number, predicted: TableRows): Hits {
    const { table, rows } = predicted;
    const tokens = batch.tokens.length;
    const chosen = dispatch.length / (layers.length * tokens);
    const { narrow, wide } = recallWidths(this.#options.topK);
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
    this.#total.predicted += hits.predicted;
    this.#total.narrow += hits.narrow;
    this.#total.wide += hits.wide;
    return hits;
  }
}

/** Index of the expert in the token's table row, or infinity if the row does not contain it. */
function rankOf(expert: number, { experts, k }: HashTable, at: number): number {
  let rank = 0;
  while (rank < k && experts[at + rank] !== expert) rank += 1;
  return rank === k ? Number.POSITIVE_INFINITY : rank;
}
