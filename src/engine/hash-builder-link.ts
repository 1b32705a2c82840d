/** The main thread's end of the hash-building thread. */
import { Worker } from 'node:worker_threads';
import { Doorbell } from '../predictor/doorbell.js';
import type {
  FromHashBuilder,
  HashBuilderThreadData,
  ToHashBuilder,
} from '../predictor/hash-builder-thread.js';
import type { PredictorInfo } from './messages.js';

export class HashBuilderLink {
  readonly worker: Worker;
  /** What predicts, or why nothing does. */
  readonly opened: Promise<PredictorInfo>;
  readonly #bell: Doorbell;

  /** `entry`: what the thread runs, by `runHashBuilder`. */
  constructor(
    data: HashBuilderThreadData,
    entry = new URL('../predictor/hash-builder-thread.js', import.meta.url),
  ) {
    this.#bell = new Doorbell(data.queue.departures);
    this.worker = new Worker(entry, {
      name: 'hash-builder',
      workerData: data,
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

  post(message: ToHashBuilder): void {
    this.worker.postMessage(message);
    // The thread sleeps on the bell, not on its port.
    this.#bell.ring();
  }
}
