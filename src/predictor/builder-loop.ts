/** The hash-building thread's work: names the experts of inputs, makes batches of them and hands these on with their tables. */
import type { BatchMaker } from '../engine/batcher.js';
import { encodeBatch } from '../engine/encode-batch.js';
import type { EncodeBatch, QueuedBatch } from '../inference/messages.js';
import { type EventArgs, profiled, profiledFor } from '../profile/thread-events.js';
import { batchInput } from './batch-input.js';
import type { BuilderStats } from './builder-stats.js';
import type { FromHashBuilder, ToHashBuilder } from './hash-builder-thread.js';
import type { QueueProducer } from './hash-table-queue.js';
import type { ResidentFlag } from './resident-flag.js';
import type { PendingTables, TableBuilder } from './table-builder.js';

export interface BuilderLoopOptions {
  queue: QueueProducer<QueuedBatch>;
  batcher: BatchMaker;
  /** Null: nobody predicts. */
  builder: TableBuilder | null;
  stats: BuilderStats;
  resident: ResidentFlag;
  /** The next message, if one has arrived. */
  nextMessage: () => ToHashBuilder | undefined;
  emit: (message: FromHashBuilder) => void;
  /** Milliseconds. */
  clock?: () => number;
}

export class BuilderLoop {
  readonly #options: BuilderLoopOptions;
  readonly #clock: () => number;

  constructor(options: BuilderLoopOptions) {
    this.#options = options;
    this.#clock = options.clock ?? (() => performance.now());
  }

  /** Never returns; blocks its thread. */
  run(): never {
    const { queue, batcher } = this.#options;
    for (;;) {
      const seen = queue.departures.rings;
      if (this.turn()) continue;
      const due = queue.length > 0 ? Number.POSITIVE_INFINITY : batcher.dueIn(this.#clock());
      if (queue.full) profiled('queue full', () => queue.departures.wait(seen, due));
      else queue.departures.wait(seen, due);
    }
  }

  /** Messages, then one batch or the tables of one waiting input. False when there is nothing to do now. */
  turn(): boolean {
    this.#readMessages();
    const { queue, batcher } = this.#options;
    // With a batch ahead of it the inference thread does not wait for the next: that may fill up, and be chosen with care.
    if (queue.length === 0 && this.#due()) this.#handOn();
    else if (this.#nameOne()) return true;
    else if (batcher.full && !queue.full) this.#handOn();
    else return false;
    return true;
  }

  /** Company is not worth waiting for while nobody computes: it comes while this batch does. */
  #due(): boolean {
    const { queue, batcher } = this.#options;
    return batcher.waiting > 0 && (queue.consumerIdle || batcher.dueIn(this.#clock()) === 0);
  }

  #readMessages(): void {
    const { nextMessage, batcher, emit } = this.#options;
    for (let message = nextMessage(); message !== undefined; message = nextMessage()) {
      if (message.type === 'add') batcher.add(message.items, this.#clock());
      else {
        batcher.cancel(message.job);
        emit({ type: 'cancelled', job: message.job, lastBatch: batcher.lastBatch });
      }
    }
  }

  #nameOne(): boolean {
    const { batcher, builder } = this.#options;
    const waiting = batcher.unnamed();
    if (builder === null || waiting === undefined) return false;
    if (!this.#predicts(waiting.item.routingK)) return false;
    const { length: tokens } = waiting.item.tokens;
    const tables = profiled(
      'build table',
      () => builder.ahead(batchInput(encodeBatch(0, [waiting.item]), builder.shape)),
      { tokens },
    );
    batcher.name(waiting, tables);
    return true;
  }

  #predicts(routingK: number): boolean {
    return this.#options.builder !== null && (routingK > 0 || !this.#options.resident.all);
  }

  #handOn(): void {
    const { batcher, builder, stats } = this.#options;
    const { batch, parts, arrivedMs, passedOver, overdue } = batcher.take();
    const args = argsOf(batch);
    profiledFor('batch wait', this.#clock() - arrivedMs, args);
    stats.add('inputs', batch.items.length);
    stats.add('passedOver', passedOver);
    stats.add('overdue', overdue);
    if (builder === null || !this.#predicts(batch.routingK)) this.#put(batch, null);
    else if (parts !== null) {
      this.#put(
        batch,
        profiled('build table', () => builder.join(batchInput(batch, builder.shape), parts), args),
      );
    } else this.#fillBehind(batch, builder);
  }

  /** The batch goes ahead of what its tables will say, so that the queue's bound holds for tables in the making too. */
  #fillBehind(batch: EncodeBatch, builder: TableBuilder): void {
    const input = batchInput(batch, builder.shape);
    const tables = builder.begin(input);
    this.#put(batch, tables);
    if (tables === null) return;
    profiled('build table', () => builder.fill(input, tables), argsOf(batch));
    // The inference thread may be waiting for just this table.
    this.#options.queue.arrivals.ring();
  }

  #put(batch: EncodeBatch, tables: PendingTables | null): void {
    const buffers = tables && tables.map((table) => table && table.buffer);
    this.#options.queue.put({ batch, tables: buffers });
  }
}

function argsOf({ id, tokens }: EncodeBatch): EventArgs {
  return { batch: id, tokens: tokens.length };
}
