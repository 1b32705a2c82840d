/** The main thread's end of the hash-building thread. */

import { Worker } from 'node:worker_threads';
import type { PromptBatch } from '../protocol/inference-messages.js';
import type {
  ChosenPredictor,
  FromHashBuilder,
  HashBuilderThreadData,
} from '../protocol/predictor-messages.js';
import { WakeUp } from '../protocol/wake-up.js';

export class HashBuilderLink {
  readonly worker: Worker;
  /** Resolves with the predictor's name, or with null and the reasons why there is none. */
  readonly opened: Promise<ChosenPredictor>;
  readonly #wakeUp = new WakeUp();

  constructor(data: Omit<HashBuilderThreadData, 'work'>) {
    this.worker = new Worker(new URL('../predictor/hash-builder-thread.js', import.meta.url), {
      name: 'hash-builder',
      workerData: { ...data, work: this.#wakeUp.buffer } satisfies HashBuilderThreadData,
      transferList: [data.queue.port],
    });
    this.opened = new Promise((resolve, reject) => {
      this.worker.once('message', (message: FromHashBuilder) => {
        if (message.type === 'opened') resolve(message.predictor);
        else reject(new Error(`The hash-building thread began with ${message.type}. This is a bug.`));
      });
    });
  }

  listen(listener: (message: FromHashBuilder) => void): void {
    this.worker.on('message', listener);
  }

  /** Sends the batch to the thread. The queue must have room for it. */
  build(batch: PromptBatch): void {
    this.worker.postMessage(batch);
    this.#wakeUp.signal();
  }
}
