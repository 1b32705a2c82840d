/** The main thread's end of the inference thread. */
import { type MessagePort, Worker } from 'node:worker_threads';
import { SidaError } from '../errors.js';
import type { FromInference, InferenceThreadData, ToInference } from '../protocol/inference-messages.js';
import { StepBacklog } from '../protocol/step-backlog.js';
import { WakeUp } from '../protocol/wake-up.js';

export type OpenedEngine = Extract<FromInference, { type: 'opened' }>;

export class InferenceLink {
  readonly worker: Worker;
  /** Rejects if the model cannot be opened. */
  readonly opened: Promise<OpenedEngine>;
  readonly #wakeUp: WakeUp;
  readonly #backlog = new StepBacklog();

  constructor(data: Omit<InferenceThreadData, 'backlog'>) {
    this.#wakeUp = new WakeUp(data.queue.arrivals);
    this.worker = new Worker(new URL('../inference/inference-thread.js', import.meta.url), {
      name: 'inference',
      workerData: { ...data, backlog: this.#backlog.buffer } satisfies InferenceThreadData,
      transferList: [data.queue.port],
    });
    this.opened = new Promise((resolve, reject) => {
      this.worker.once('message', (message: FromInference) => {
        if (message.type === 'opened') resolve(message);
        else if (message.type === 'failed') reject(new SidaError(message.error));
        else reject(new Error(`The inference thread began with ${message.type}. This is a bug.`));
      });
    });
  }

  listen(listener: (message: FromInference) => void): void {
    this.worker.on('message', (message: FromInference) => {
      listener(message);
      if (message.type === 'tokens') this.#backlog.taken();
    });
  }

  post(message: ToInference, transfer: MessagePort[] = []): void {
    this.worker.postMessage(message, transfer);
    // The thread sleeps on the wake-up and not on its port.
    this.#wakeUp.signal();
  }
}
