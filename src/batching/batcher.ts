/** Groups inputs into batches within a token budget, in the order they came. */
import type { PromptBatch } from '../protocol/thread-messages.js';
import { type PendingItem, promptBatch } from './prompt-batch.js';

interface BatcherOptions {
  /** Tokens of one batch; no item has more. */
  maxBatchTokens: number;
  /** How long the first item of a batch waits for others. */
  waitMs: number;
}

export interface MadeBatch {
  batch: PromptBatch;
  /** When its oldest item came. */
  arrivedMs: number;
}

interface WaitingItem {
  readonly item: PendingItem;
  readonly arrivedMs: number;
}

/** What the batch feed asks of a batcher. */
export type BatchMaker = Pick<Batcher, keyof Batcher>;

export class Batcher {
  readonly #options: BatcherOptions;
  #waiting: WaitingItem[] = [];
  #tokens = 0;
  #lastBatch = -1;

  constructor(options: BatcherOptions) {
    this.#options = options;
  }

  /** Id of the last batch made, -1 before the first. */
  get lastBatch(): number {
    return this.#lastBatch;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  /** Whether what waits fills a batch. */
  get full(): boolean {
    return this.#tokens >= this.#options.maxBatchTokens;
  }

  add(items: readonly PendingItem[], nowMs: number): void {
    for (const item of items) {
      this.#waiting.push({ item, arrivedMs: nowMs });
      this.#tokens += item.tokens.length;
    }
  }

  /** Removes the job's waiting items; those in batches that were made stay there. */
  cancel(job: number): void {
    this.#keep(this.#waiting.filter(({ item }) => item.job !== job));
  }

  /** Milliseconds until the next batch is due, 0 when it is; Infinity when nothing waits. */
  dueIn(nowMs: number): number {
    const first = this.#waiting[0];
    if (first === undefined) return Number.POSITIVE_INFINITY;
    if (this.full) return 0;
    return Math.max(0, first.arrivedMs + this.#options.waitMs - nowMs);
  }

  /**
   * The next batch; there must be an item. The oldest is in it, then those routed like it, up to the first that does
   * not fit.
   */
  take(): MadeBatch {
    const { item: oldest, arrivedMs } = this.#waiting[0]!;
    const taken: PendingItem[] = [];
    const left: WaitingItem[] = [];
    let tokens = 0;
    let room = true;
    for (const waiting of this.#waiting) {
      const { item } = waiting;
      const joins = room && item.routingK === oldest.routingK;
      if (joins && (item === oldest || tokens + item.tokens.length <= this.#options.maxBatchTokens)) {
        taken.push(item);
        tokens += item.tokens.length;
        continue;
      }
      // Later items do not overtake the one that does not fit.
      if (joins) room = false;
      left.push(waiting);
    }
    this.#keep(left);
    this.#lastBatch += 1;
    return { batch: promptBatch(this.#lastBatch, taken), arrivedMs };
  }

  #keep(waiting: WaitingItem[]): void {
    this.#waiting = waiting;
    this.#tokens = waiting.reduce((sum, { item }) => sum + item.tokens.length, 0);
  }
}
