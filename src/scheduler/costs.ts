/** Tracks the cost of each running job, when its last item is done, and how often tables named the chosen experts. */

import { recallWidths } from '../forecast/hit-ranks.js';
import type { PassForecast, TableRows } from '../forecast/pass-forecast.js';
import {
  EXPERT_CPU,
  EXPERT_LATE,
  EXPERT_ON_DEMAND,
  EXPERT_PEER,
  EXPERT_PREFETCHED,
  EXPERT_RESIDENT,
  type ModelShape,
  type NativeBatch,
  NO_EXPERT,
  type RunResult,
} from '../native/addon-types.js';
import { type ExpertCost, hitFields, noCost } from '../protocol/expert-cost.js';
import type { HashTable } from '../protocol/hash-table.js';
import type { JobEnd, PreparedRequest } from '../protocol/inference-messages.js';

type JobItem = Pick<PreparedRequest, 'job' | 'jobItems'>;

interface Entry {
  cost: ExpertCost;
  hits: Hits;
  itemsLeft: number;
  startedMs: number;
  /** Whether a pass has run for it. */
  ran: boolean;
}

export class JobCosts {
  readonly #jobs = new Map<number, Entry>();
  readonly #topK: number;
  readonly #blockBytes: readonly number[];
  readonly #marks: Uint32Array;
  #mark = 0;

  /** `blockBytes`: of one expert, by MoE layer. */
  constructor({ experts, topK }: Pick<ModelShape, 'experts' | 'topK'>, blockBytes: readonly number[]) {
    this.#topK = topK;
    this.#blockBytes = blockBytes;
    this.#marks = new Uint32Array(experts);
  }

  /** Call it for every item that starts. The first item starts the job. */
  begin({ job, jobItems }: JobItem, nowMs: number): void {
    if (this.#jobs.has(job)) return;
    this.#jobs.set(job, {
      cost: noCost(this.#topK),
      hits: { predicted: 0, narrow: 0, wide: 0 },
      itemsLeft: jobItems,
      startedMs: nowMs,
      ran: false,
    });
  }

  /** Whether a pass has run for the job. */
  ran(job: number): boolean {
    return this.#jobs.get(job)?.ran ?? false;
  }

  /**
   * Adds one native pass. `jobs` (S) holds the job of each sequence, `offsets` (S + 1) the range of its tokens, `hits`
   * (S) those of its table, if there is one.
   */
  add(result: RunResult, jobs: readonly number[], offsets: Int32Array, hits: readonly Hits[] | null): void {
    const spans = new Map<number, [number, number][]>();
    jobs.forEach((job, i) => {
      const span: [number, number] = [offsets[i]!, offsets[i + 1]!];
      const list = spans.get(job);
      if (list === undefined) spans.set(job, [span]);
      else list.push(span);
    });
    const tokens = offsets[jobs.length]!;
    for (const [job, list] of spans) {
      const entry = this.#jobs.get(job);
      if (entry === undefined) continue;
      entry.ran = true;
      for (let layer = 0; layer < result.layers.length; layer++) {
        this.#addLayer(entry.cost, result, layer, tokens, list);
      }
      entry.cost.stall_ms += result.stats.stallNs / 1e6;
    }
    hits?.forEach(({ predicted, narrow, wide }, i) => {
      const sums = this.#jobs.get(jobs[i]!)?.hits;
      if (sums === undefined) return;
      sums.predicted += predicted;
      sums.narrow += narrow;
      sums.wide += wide;
    });
  }

  /** Counts one item as done. Returns the job's cost and times with its last item, else undefined. */
  itemDone(job: number, nowMs: number): JobEnd | undefined {
    const entry = this.#jobs.get(job);
    if (entry === undefined) return undefined;
    entry.itemsLeft -= 1;
    if (entry.itemsLeft > 0) return undefined;
    this.#jobs.delete(job);
    const { cost, startedMs } = entry;
    const { predicted, ...found } = entry.hits;
    return { cost: { ...cost, predicted, ...hitFields(this.#topK, found) }, startedMs, endedMs: nowMs };
  }

  drop(job: number): void {
    this.#jobs.delete(job);
  }

  /** Counts each expert once that any of the job's tokens used. */
  #addLayer(
    cost: ExpertCost,
    result: RunResult,
    layer: number,
    tokens: number,
    spans: [number, number][],
  ): void {
    const experts = this.#marks.length;
    const bytes = this.#blockBytes[result.layers[layer]!]!;
    this.#mark = (this.#mark + 1) >>> 0;
    if (this.#mark === 0) {
      this.#marks.fill(0);
      this.#mark = 1;
    }
    // `dispatch` is (layers, tokens, k), where k is the routers' topK, or the table's k if a table routes.
    const k = result.dispatch.length / (result.layers.length * tokens);
    for (const [begin, end] of spans) {
      for (let entry = begin * k; entry < end * k; entry++) {
        const expert = result.dispatch[layer * tokens * k + entry]!;
        if (expert === NO_EXPERT || this.#marks[expert] === this.#mark) continue;
        this.#marks[expert] = this.#mark;
        this.#count(cost, result.found[layer * experts + expert]!, bytes);
      }
    }
  }

  #count(cost: ExpertCost, found: number, bytes: number): void {
    cost.needed += 1;
    if (found === EXPERT_RESIDENT) {
      cost.resident += 1;
      return;
    }
    if (found === EXPERT_PEER) {
      cost.peer += 1;
      return;
    }
    if (found === EXPERT_CPU) {
      cost.cpu += 1;
      return;
    }
    if (found === EXPERT_PREFETCHED) cost.prefetched += 1;
    else if (found === EXPERT_LATE) cost.late += 1;
    else if (found === EXPERT_ON_DEMAND) cost.on_demand += 1;
    cost.loaded += 1;
    cost.bytes += bytes;
  }
}

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
