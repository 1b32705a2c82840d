// The hash-building thread with a batcher that makes a batch of each job, whatever its size.
import { encodeBatch } from '../dist/engine/encode-batch.js';
import { runHashBuilder } from '../dist/predictor/hash-builder.js';

class JobBatcher {
  lastBatch = -1;
  #jobs = [];

  get waiting() {
    return this.#jobs.length;
  }

  get full() {
    return this.waiting > 0;
  }

  add(items, nowMs) {
    this.#jobs.push({ items, arrivedMs: nowMs });
  }

  dueIn() {
    return this.full ? 0 : Number.POSITIVE_INFINITY;
  }

  unnamed() {}

  take() {
    const { items, arrivedMs } = this.#jobs.shift();
    this.lastBatch += 1;
    return { batch: encodeBatch(this.lastBatch, items), parts: null, arrivedMs, passedOver: 0, overdue: 0 };
  }
}

await runHashBuilder(() => new JobBatcher());
