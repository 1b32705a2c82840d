/** How good the tables were, judged by the routing that came true: predictor hits and Belady's bytes. */
import { type NativeBatch, NO_EXPERT, type RunResult } from '../native/addon-types.js';
import type { Belady } from './belady.js';
import type { Foreknowledge, TableRows } from './foreknowledge.js';

/** Sums over (MoE layer, token) pairs with a prediction; over-capacity tokens are left out. */
export interface Hits {
  predicted: number;
  /** The true expert was the table's first. */
  top1: number;
  /** It was among the table's first three. */
  top3: number;
}

export interface Verdict {
  /** Of each sequence of the pass; null without a table. */
  hits: Hits[] | null;
  /** Flat ids perfect foresight would have loaded, when a job wants to know. */
  beladyLoads: Set<number> | null;
}

export interface RoutingQualityOptions {
  expertsPerLayer: number;
  belady: Belady;
  /** Whether the job's answer tells what it cost. */
  explains: (job: number) => boolean;
}

export class RoutingQuality {
  readonly #options: RoutingQualityOptions;
  readonly #total: Hits = { predicted: 0, top1: 0, top3: 0 };
  #batch = 0;

  constructor(options: RoutingQualityOptions) {
    this.#options = options;
  }

  get total(): Readonly<Hits> {
    return this.#total;
  }

  get beladyLoads(): number {
    return this.#options.belady.loads;
  }

  /** The passes from here on belong to the next batch: what the look-ahead counts. */
  nextBatch(): void {
    this.#batch += 1;
  }

  judge(
    result: RunResult,
    jobs: readonly number[],
    batch: NativeBatch,
    { predicted, routingK }: Foreknowledge,
  ): Verdict {
    const { belady, expertsPerLayer: experts, explains } = this.#options;
    const layers = result.layers.length;
    for (let layer = 0; layer < layers; layer++) {
      const ids: number[] = [];
      for (let e = 0; e < experts; e++) {
        if (result.found[layer * experts + e] !== 0) ids.push(result.layers[layer]! * experts + e);
      }
      belady.add({ batch: this.#batch, ids });
    }
    const beladyLoads = jobs.some(explains) ? new Set(belady.lastLoads(layers).flat()) : null;
    // Where the table routes there is no truth to judge it by.
    const hits =
      predicted && routingK === 0 ? jobs.map((_, i) => this.#hits(result, batch, i, predicted)) : null;
    return { hits, beladyLoads };
  }

  #hits({ dispatch, layers }: RunResult, batch: NativeBatch, sequence: number, predicted: TableRows): Hits {
    const { table, rows } = predicted;
    const tokens = batch.tokens.length;
    const hits: Hits = { predicted: 0, top1: 0, top3: 0 };
    const named = Math.min(3, table.k);
    for (let layer = 0; layer < layers.length; layer++) {
      for (let t = batch.offsets[sequence]!; t < batch.offsets[sequence + 1]!; t++) {
        const expert = dispatch[layer * tokens + t]!;
        const at = (layer * table.tokens + rows[t]!) * table.k;
        if (expert === NO_EXPERT || table.experts[at] === NO_EXPERT) continue;
        hits.predicted += 1;
        let rank = 0;
        while (rank < named && table.experts[at + rank] !== expert) rank += 1;
        if (rank === 0) hits.top1 += 1;
        if (rank < named) hits.top3 += 1;
      }
    }
    this.#total.predicted += hits.predicted;
    this.#total.top1 += hits.top1;
    this.#total.top3 += hits.top3;
    return hits;
  }
}
