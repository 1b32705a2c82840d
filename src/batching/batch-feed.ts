/** Sends each batch to the hash-building thread when it is due and the queue has room. Runs on the main thread. */

import { profiledFor } from '../profile/thread-events.js';
import type { QueueGauge } from '../protocol/hash-table-queue.js';
import type { PromptBatch } from '../protocol/thread-messages.js';
import type { BatchMaker } from './batcher.js';
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
    while (this.#due()) {
      const { batch, arrivedMs } = batcher.take();
      const args = { batch: batch.id, tokens: batch.tokens.length };
      profiledFor('batch wait', this.#clock() - arrivedMs, args);
      this.#handed += 1;
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

  #due(): boolean {
    const { batcher, queue } = this.#options;
    if (batcher.waiting === 0) return false;
    // While another batch is ahead, a partial batch loses no time by waiting, and it may fill up.
    if (this.#ahead > 0) return batcher.full && this.#ahead < queue.capacity;
    // If the inference thread is idle, send the batch at once. More inputs can arrive while it runs.
    return queue.consumerIdle || batcher.dueIn(this.#clock()) === 0;
  }
}
