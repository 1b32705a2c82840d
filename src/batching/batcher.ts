/** Groups inputs into batches within a token budget, in order of arrival. */
import type { PromptBatch } from '../protocol/thread-messages.js';
import { type PendingItem, promptBatch } from './prompt-batch.js';

interface BatcherOptions {
  /** Most tokens in a batch. No item has more. */
  maxBatchTokens: number;
  /** Longest time in milliseconds that the first item of a batch waits for others. */
  waitMs: number;
}

export interface MadeBatch {
  batch: PromptBatch;
  /** When the oldest item of the batch arrived, in milliseconds. */
  arrivedMs: number;
}

interface WaitingItem {
  readonly item: PendingItem;
  readonly arrivedMs: number;
}

/** The part of a batcher that the batch feed uses. */
export type BatchMaker = Pick<Batcher, keyof Batcher>;

export class Batcher {
  readonly #options: BatcherOptions;
  #waiting: WaitingItem[] = [];
  #tokens = 0;
  #lastBatch = -1;

  constructor(options: BatcherOptions) {
    this.#options = options;
  }

  /** Id of the last batch, or -1 before the first. */
  get lastBatch(): number {
    return this.#lastBatch;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  /** Whether the waiting items fill a batch. */
  get full(): boolean {
    return this.#tokens >= this.#options.maxBatchTokens;
  }

  add(items: readonly PendingItem[], nowMs: number): void {
    for (const item of items) {
      this.#waiting.push({ item, arrivedMs: nowMs });
      this.#tokens += item.tokens.length;
    }
  }

  /** Removes the job's waiting items. Items in batches that were already made stay there. */
  cancel(job: number): void {
    this.#keep(this.#waiting.filter(({ item }) => item.job !== job));
  }

  /** Milliseconds until the next batch is due: 0 if it is due now, Infinity if no item waits. */
  dueIn(nowMs: number): number {
    const first = this.#waiting[0];
    if (first === undefined) return Number.POSITIVE_INFINITY;
    if (this.full) return 0;
    return Math.max(0, first.arrivedMs + this.#options.waitMs - nowMs);
  }

  /**
   * Makes the next batch. At least one item must wait. The batch holds the oldest item and the items with the same
   * routing after it, up to the first that does not fit.
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
      // Items must not overtake an earlier one that does not fit.
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
