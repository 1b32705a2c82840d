/** Follows a job whose client waits, until it ends, its deadline passes or its client leaves. */
import { type ErrorBody, SidaError } from '../../errors.js';
import type { JobOptions, JobOutcome } from '../job-queue.js';
import { clientGone, expired, streamBroken } from '../refusals.js';
import { DeltaReader } from './deltas.js';
import type { LinkEvent, QueueLink } from './queue-link.js';
import { lost, soon } from './redis-client.js';
import { errorOf, progressOf, resultOf } from './stored-job.js';

interface SubmittedJob {
  id: string;
  kind: string;
  deadlineMs: number;
}

export class Submission {
  readonly outcome: Promise<JobOutcome | SidaError>;
  readonly #link: QueueLink;
  readonly #job: SubmittedJob;
  readonly #options: JobOptions;
  readonly #createdMs = Date.now();
  readonly #deadline: NodeJS.Timeout;
  readonly #unlisten: () => void;
  readonly #onStop: () => void;
  readonly #reader = new DeltaReader();
  readonly #onAbort = () => this.giveUp(clientGone());
  #settled = false;
  #resolve!: (outcome: JobOutcome | SidaError) => void;

  /** Listens at once, so that no event of the job is missed. `onStop` is called when the job must not run on. */
  constructor(link: QueueLink, job: SubmittedJob, options: JobOptions, onStop: () => void) {
    this.#link = link;
    this.#job = job;
    this.#options = options;
    this.#onStop = onStop;
    this.outcome = new Promise((resolve) => {
      this.#resolve = resolve;
    });
    this.#unlisten = link.listen(job.id, (event) => this.#take(event));
    options.signal?.addEventListener('abort', this.#onAbort, { once: true });
    this.#deadline = setTimeout(() => this.giveUp(expired(job.deadlineMs)), job.deadlineMs);
  }

  /** Gives the client this error and ends the job. */
  giveUp(error: SidaError): void {
    if (this.#settled) return;
    this.#onStop();
    this.settle(error);
  }

  /** The job is over and no event told of it. Gives the client its answer, if it is in the job's log. */
  async look(): Promise<void> {
    const job = await this.#link.find(this.#job.id);
    if (job?.returnvalue) await this.#complete(job.returnvalue);
    else this.settle(lost());
  }

  /** Gives the client this outcome. */
  settle(outcome: JobOutcome | SidaError): void {
    if (this.#settled) return;
    this.#settled = true;
    clearTimeout(this.#deadline);
    this.#options.signal?.removeEventListener('abort', this.#onAbort);
    this.#unlisten();
    this.#resolve(outcome);
  }

  #take({ type, data, returnvalue, failedReason }: LinkEvent): void {
    if (this.#settled) return;
    if (type === 'completed') void this.#complete(returnvalue);
    else if (type === 'failed') this.settle(new SidaError(errorOf(failedReason!) as ErrorBody));
    else if (type === 'stalled' && this.#reader.taken > 0) this.giveUp(streamBroken());
    else if (type === 'progress') this.#stream(data);
  }

  #stream(data: unknown): void {
    const report = progressOf(data);
    const { onDelta } = this.#options;
    if (report === undefined || onDelta === undefined) return;
    try {
      const again = this.#reader.taken > 0 && this.#reader.starts(report);
      const deltas = again ? undefined : this.#reader.take(report);
      if (deltas === undefined) throw streamBroken();
      // A stream that has begun ends by its tokens or its client.
      if (deltas.length > 0) clearTimeout(this.#deadline);
      for (const delta of deltas) if (!this.#settled) onDelta(delta);
    } catch (error) {
      this.giveUp(SidaError.from(error));
    }
  }

  async #complete(returned: unknown): Promise<void> {
    const { id, kind } = this.#job;
    try {
      const row = (at: number) => this.#link.row(id, at);
      const { result, attempts, startedMs, row: inLog } = await soon(resultOf(kind, returned, row));
      // A job whose answer is in its log stays until it is read.
      if (inLog !== undefined) this.#link.queue.remove(id).catch(() => undefined);
      this.settle({ result, attempts, queueMs: Math.max(0, startedMs - this.#createdMs) });
    } catch (error) {
      this.giveUp(SidaError.from(error));
    }
  }
}
