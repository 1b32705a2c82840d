/** BullMQ's entries of jobs that came from another worker, whose lock came with them: renewed here, and ended here. */
import { Job, type Queue, type Worker } from 'bullmq';
import { entryIdOf } from './bullmq-entry.js';
import type { AfterRun } from './job-runs.js';

export class PassedEntries {
  readonly #bullmq: Queue;
  readonly #worker: Worker;
  readonly #lockMs: number;
  /** Lock tokens by entry id. */
  readonly #held = new Map<string, string>();
  readonly #timer: NodeJS.Timeout;

  /** `lockMs`: as all workers of the queue have it. */
  constructor(bullmq: Queue, worker: Worker, lockMs: number) {
    this.#bullmq = bullmq;
    this.#worker = worker;
    this.#lockMs = lockMs;
    // As often as BullMQ renews those of its own.
    this.#timer = setInterval(() => void this.#renew(), lockMs / 4);
  }

  hold(id: string, token: string): void {
    this.#held.set(entryIdOf(id), token);
  }

  /** What cannot be told to Redis is mended when the lock runs out. */
  async end(id: string, after: AfterRun): Promise<void> {
    const entryId = entryIdOf(id);
    const token = this.#held.get(entryId)!;
    this.#held.delete(entryId);
    const job = await Job.fromId(this.#bullmq, entryId);
    if (after === 'over') await job?.moveToCompleted(undefined, token, false);
    else if (after === 'elsewhere') await job?.moveToWait(token);
    else await job?.moveToFailed(stoppedWhileRunning(), token, false);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async #renew(): Promise<void> {
    if (this.#held.size === 0) return;
    // A lock that was lost is another worker's now; the ledger tells whose run counts.
    await this.#worker
      .extendJobLocks([...this.#held.keys()], [...this.#held.values()], this.#lockMs)
      .catch(() => undefined);
  }
}

export function stoppedWhileRunning(): Error {
  return new Error('The engine stopped while it ran this job');
}
