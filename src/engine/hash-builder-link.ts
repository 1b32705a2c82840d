/** The main thread's end of the hash-building thread: it makes the tables of a batch, which the thread fills. */

import { Worker } from 'node:worker_threads';
import { batchInputs } from '../predictor/batch-inputs.js';
import { routingShape } from '../predictor/hash-function.js';
import { TableMaker } from '../predictor/table-maker.js';
import { BuilderStats } from '../protocol/builder-stats.js';
import type { BatchTables } from '../protocol/hash-table.js';
import type { PromptBatch } from '../protocol/inference-messages.js';
import type {
  ChosenPredictor,
  FromHashBuilder,
  HashBuilderThreadData,
  ToHashBuilder,
} from '../protocol/predictor-messages.js';
import { SharedFlag } from '../protocol/shared-flag.js';
import { WakeUp } from '../protocol/wake-up.js';

interface HashBuilderOptions extends Omit<HashBuilderThreadData, 'work'> {
  /** Buffer of a SharedFlag: every expert has a slot, and no expert moves. No tables are built then. */
  resident: SharedArrayBuffer;
}

export class HashBuilderLink {
  readonly worker: Worker;
  /** Resolves with the predictor's name, or with null and the reasons why there is none. */
  readonly opened: Promise<ChosenPredictor>;
  readonly #wakeUp = new WakeUp();
  /** Null until there is a predictor. */
  #maker: TableMaker | null = null;

  constructor({ resident, ...data }: HashBuilderOptions) {
    const stats = new BuilderStats(data.stats);
    this.worker = new Worker(new URL('../predictor/hash-builder-thread.js', import.meta.url), {
      name: 'hash-builder',
      workerData: { ...data, work: this.#wakeUp.buffer } satisfies HashBuilderThreadData,
    });
    const shape = routingShape(data.model);
    this.opened = new Promise((resolve, reject) => {
      this.worker.once('message', (message: FromHashBuilder) => {
        if (message.type !== 'opened') {
          reject(new Error(`The hash-building thread began with ${message.type}. This is a bug.`));
          return;
        }
        const { name } = message.predictor;
        if (name !== null) {
          const readsContexts = name !== 'token';
          this.#maker = new TableMaker({ shape, stats, resident: new SharedFlag(resident), readsContexts });
        }
        resolve(message.predictor);
      });
    });
  }

  listen(listener: (message: FromHashBuilder) => void): void {
    this.worker.on('message', listener);
  }

  /** Returns the pending tables of the batch, which the thread begins to fill, or null if tables do not pay. */
  attach(batch: PromptBatch): BatchTables | null {
    const made = this.#maker?.make(batch, (shape) => batchInputs(batch, shape)) ?? null;
    if (made === null) return null;
    const tables = made.tables.map((table) => table?.buffer ?? null);
    const { id, routingK } = batch;
    this.worker.postMessage({ batch: { id, routingK, inputs: made.inputs }, tables } satisfies ToHashBuilder);
    this.#wakeUp.signal();
    return tables;
  }
}
