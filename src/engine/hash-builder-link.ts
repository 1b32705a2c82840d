/** The main thread's end of the hash-building thread. */

import { Worker } from 'node:worker_threads';
import { BuilderStats } from '../protocol/builder-stats.js';
import { type QueueEnd, QueueProducer } from '../protocol/hash-table-queue.js';
import type { PromptBatch, QueuedBatch } from '../protocol/inference-messages.js';
import { wantsTables } from '../protocol/inference-messages.js';
import type {
  ChosenPredictor,
  FromHashBuilder,
  HashBuilderThreadData,
} from '../protocol/predictor-messages.js';
import { SharedFlag } from '../protocol/shared-flag.js';
import { WakeUp } from '../protocol/wake-up.js';

export class HashBuilderLink {
  readonly worker: Worker;
  /** Resolves with the predictor's name, or with null and the reasons why there is none. */
  readonly opened: Promise<ChosenPredictor>;
  readonly #wakeUp = new WakeUp();
  readonly #direct: QueueProducer<QueuedBatch>;
  readonly #stats: BuilderStats;
  readonly #resident: SharedFlag;
  /** False once it is known that there is no predictor. */
  #predicts = true;
  /** Batches so far, modulo 2^32. */
  #batches = 0;

  /** `direct` is the main thread's end of the queue. */
  constructor(data: Omit<HashBuilderThreadData, 'work'>, direct: QueueEnd) {
    this.#direct = new QueueProducer(direct);
    this.#stats = new BuilderStats(data.stats);
    this.#resident = new SharedFlag(data.resident);
    this.worker = new Worker(new URL('../predictor/hash-builder-thread.js', import.meta.url), {
      name: 'hash-builder',
      workerData: { ...data, work: this.#wakeUp.buffer } satisfies HashBuilderThreadData,
      transferList: [data.queue.port],
    });
    this.opened = new Promise((resolve, reject) => {
      this.worker.once('message', (message: FromHashBuilder) => {
        if (message.type === 'opened') {
          this.#predicts = message.predictor.name !== null;
          resolve(message.predictor);
        } else {
          reject(new Error(`The hash-building thread began with ${message.type}. This is a bug.`));
        }
      });
    });
  }

  listen(listener: (message: FromHashBuilder) => void): void {
    this.worker.on('message', listener);
  }

  /** Sends the batch to the thread. The queue must have room for it. */
  build(batch: PromptBatch): void {
    this.#stats.add('inputs', batch.items.length);
    if (this.#needsNothing(batch)) {
      this.#direct.put({ batch, tables: null });
    } else {
      this.worker.postMessage(batch);
      this.#wakeUp.signal();
    }
    this.#batches = (this.#batches + 1) | 0;
  }

  /**
   * Whether the batch gets no tables, and all batches before it have left the thread and the queue. It then goes
   * straight to the inference thread, which saves the time to wake another thread.
   */
  #needsNothing(batch: PromptBatch): boolean {
    if (!this.#direct.empty || this.#direct.count !== this.#batches) return false;
    return !(this.#predicts && wantsTables(batch, this.#resident));
  }
}
