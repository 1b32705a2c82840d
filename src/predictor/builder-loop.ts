/** The loop of the hash-building thread: puts each batch into the queue, then fills the batch's hash tables. */

import { profiled } from '../profile/thread-events.js';
import type { QueueProducer } from '../protocol/hash-table-queue.js';
import type { PromptBatch, QueuedBatch } from '../protocol/inference-messages.js';
import { wantsTables } from '../protocol/inference-messages.js';
import type { SharedFlag } from '../protocol/shared-flag.js';
import type { WakeUp } from '../protocol/wake-up.js';
import { batchInput } from './batch-input.js';
import type { PendingTables, TableBuilder } from './table-builder.js';

interface BuilderLoopOptions {
  queue: QueueProducer<QueuedBatch>;
  /** Null if there is no predictor. */
  builder: TableBuilder | null;
  /** Raised while every expert has a slot. */
  resident: SharedFlag;
  /** Signalled when a batch has arrived. */
  work: WakeUp;
  /** Returns the next batch, or undefined if none has arrived. */
  nextBatch: () => PromptBatch | undefined;
}

export class BuilderLoop {
  readonly #options: BuilderLoopOptions;

  constructor(options: BuilderLoopOptions) {
    this.#options = options;
  }

  /** Never returns; blocks its thread. */
  run(): never {
    const { work } = this.#options;
    for (;;) {
      const seen = work.signals;
      if (!this.turn()) work.wait(seen, Number.POSITIVE_INFINITY);
    }
  }

  /** Handles one batch. Returns false if there is none. */
  turn(): boolean {
    const batch = this.#options.nextBatch();
    if (batch === undefined) return false;
    const { builder, resident } = this.#options;
    if (builder !== null && wantsTables(batch, resident)) this.#fillBehind(batch, builder);
    else this.#put(batch, null);
    return true;
  }

  /** The batch enters the queue before its tables are filled, so that the queue's bound counts unfinished tables. */
  #fillBehind(batch: PromptBatch, builder: TableBuilder): void {
    const input = batchInput(batch, builder.shape);
    const tables = builder.begin(input);
    this.#put(batch, tables);
    if (tables === null) return;
    const args = { batch: batch.id, tokens: batch.tokens.length };
    profiled('build table', () => builder.fill(input, tables), args);
    // The inference thread may be waiting for this table.
    this.#options.queue.arrivals.signal();
  }

  #put(batch: PromptBatch, tables: PendingTables | null): void {
    const buffers = tables === null ? null : tables.map((table) => (table === null ? null : table.buffer));
    this.#options.queue.put({ batch, tables: buffers });
  }
}
