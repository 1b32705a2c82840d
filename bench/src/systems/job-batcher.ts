/** A batcher that makes one batch of each job, whatever its size. */
import type { PreparedRequest } from '../../../dist/protocol/inference-messages.js';
import type { BatchMaker, MadeBatch } from '../../../dist/scheduler/batch.js';

export class JobBatcher implements BatchMaker {
  lastBatch = -1;
  #jobs: { requests: PreparedRequest[]; arrivedMs: number }[] = [];

  get waiting(): number {
    return this.#jobs.length;
  }

  get full(): boolean {
    return this.waiting > 0;
  }

  add(requests: readonly PreparedRequest[], nowMs: number): void {
    this.#jobs.push({ requests: [...requests], arrivedMs: nowMs });
  }

  cancel(job: number): void {
    this.#jobs = this.#jobs.filter(({ requests }) => requests[0]!.job !== job);
  }

  dueIn(): number {
    return this.full ? 0 : Number.POSITIVE_INFINITY;
  }

  /** Jobs of the bench have no owners. */
  keyBeside(): undefined {
    return undefined;
  }

  take(): MadeBatch {
    const { requests, arrivedMs } = this.#jobs.shift()!;
    this.lastBatch += 1;
    return { batch: { id: this.lastBatch, routingK: requests[0]!.routingK, requests }, arrivedMs };
  }
}
