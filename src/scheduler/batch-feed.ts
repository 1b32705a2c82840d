/** Sends each batch to the inference thread when it is due and the queue has room. Runs on the main thread. */

import { profiledFor } from '../profile/thread-events.js';
import type { QueueGauge } from '../protocol/hash-table-queue.js';
import type { PromptBatch } from '../protocol/inference-messages.js';
import type { BatchMaker } from './batcher.js';
import { ownerOf } from './held-batch.js';
import type { PendingItem } from './prompt-batch.js';

interface BatchFeedOptions {
  batcher: BatchMaker;
  queue: QueueGauge;
  /** Puts the batch into the queue. Calls keep their order. */
  handOn: (batch: PromptBatch) => void;
  /** In milliseconds. */
  clock?: () => number;
}

export class BatchFeed {
  readonly #options: BatchFeedOptions;
  readonly #clock: () => number;
  /** Batches sent so far. */
  #handed = 0;
  /** Owners of the batches that were sent and may not be taken yet, the last batch last. */
  #owners: string[][] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(options: BatchFeedOptions) {
    this.#options = options;
    this.#clock = options.clock ?? (() => performance.now());
  }

  add(items: readonly PendingItem[]): void {
    this.#options.batcher.add(items, this.#clock());
    this.#handOn();
  }

  /** Removes the job's waiting items. Returns the id of the last batch that may hold any of the job's items. */
  cancel(job: number): number {
    const { batcher } = this.#options;
    batcher.cancel(job);
    return batcher.lastBatch;
  }

  /** Sends due batches whenever the inference thread takes a batch or becomes idle. Never resolves. */
  async follow(): Promise<never> {
    const { departures } = this.#options.queue;
    for (;;) {
      const seen = departures.signals;
      this.#handOn();
      await departures.signalled(seen);
    }
  }

  #handOn(): void {
    const { batcher, handOn } = this.#options;
    for (;;) {
      const newcomer = this.#newcomer();
      if (newcomer === undefined && !this.#due()) break;
      const { batch, arrivedMs } = batcher.take(newcomer);
      const args = { batch: batch.id, tokens: batch.tokens.length };
      profiledFor('batch wait', this.#clock() - arrivedMs, args);
      this.#handed += 1;
      this.#owners = [...this.#owners, batch.items.map(ownerOf)].slice(-this.#ahead);
      handOn(batch);
    }
    clearTimeout(this.#timer);
    if (batcher.waiting === 0 || this.#ahead > 0) return;
    // A timer may fire slightly early. In that case #handOn sets it again.
    this.#timer = setTimeout(() => this.#handOn(), Math.ceil(batcher.dueIn(this.#clock())));
  }

  /** Batches that were sent and not yet taken by the inference thread. */
  get #ahead(): number {
    return (this.#handed - this.#options.queue.taken) | 0;
  }

  /**
   * While inputs wait for KV pages, the thread takes batches of owners that it does not know. A job of an owner that
   * no batch ahead is of goes on at once then, so that it does not wait for the inputs of others.
   */
  #newcomer(): number | undefined {
    const { batcher, queue } = this.#options;
    const { consumerBlocked, mostCapacity } = queue;
    if (!consumerBlocked || this.#ahead >= mostCapacity) return undefined;
    this.#owners = this.#ahead === 0 ? [] : this.#owners.slice(-this.#ahead);
    return batcher.jobBeside(new Set(this.#owners.flat()));
  }

  #due(): boolean {
    const { batcher, queue } = this.#options;
    if (batcher.waiting === 0) return false;
    // While another batch is ahead, a partial batch loses no time by waiting, and it may fill up.
    if (this.#ahead > 0) return batcher.full && this.#ahead < queue.capacity;
    // If the inference thread is idle, send the batch at once. More inputs can arrive while it runs.
    return queue.consumerIdle || batcher.dueIn(this.#clock()) === 0;
  }
}
