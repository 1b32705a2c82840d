/** A batcher that makes one batch of each job, whatever its size. */
import type { BatchMaker, MadeBatch } from '../../../dist/scheduler/batcher.js';
import type { PendingItem } from '../../../dist/scheduler/prompt-batch.js';
import { promptBatch } from '../../../dist/scheduler/prompt-batch.js';

export class JobBatcher implements BatchMaker {
  lastBatch = -1;
  #jobs: { items: readonly PendingItem[]; arrivedMs: number }[] = [];

  get waiting(): number {
    return this.#jobs.length;
  }

  get full(): boolean {
    return this.waiting > 0;
  }

  add(items: readonly PendingItem[], nowMs: number): void {
    this.#jobs.push({ items, arrivedMs: nowMs });
  }

  cancel(job: number): void {
    this.#jobs = this.#jobs.filter(({ items }) => items[0]!.job !== job);
  }

  dueIn(): number {
    return this.full ? 0 : Number.POSITIVE_INFINITY;
  }

  /** Jobs of the bench have no owners. */
  jobBeside(): undefined {
    return undefined;
  }

  take(): MadeBatch {
    const { items, arrivedMs } = this.#jobs.shift()!;
    this.lastBatch += 1;
    return { batch: promptBatch(this.lastBatch, items), arrivedMs };
  }
}
