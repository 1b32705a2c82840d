/** Submits a job whose client waits, and follows it until it ends, its deadline passes or its client leaves. */
import { SidaError } from '../../errors.js';
import type { JobOptions, JobOutcome } from '../job-queue.js';
import { clientGone, expired } from '../refusals.js';
import { JobFollower } from './job-follower.js';
import type { LedgerNews } from './ledger-news.js';
import type { LedgerTotals } from './ledger-replies.js';
import type { LedgerRecord } from './ledger-values.js';
import type { Acceptance, NewJob, RedisLedger } from './redis-ledger.js';
import { lost, soon, unreachable } from './redis-outage.js';

interface SubmissionEvents {
  onAccepted: () => void;
  onTotals: (totals: LedgerTotals) => void;
  /** Creates the error of a job that was not accepted. */
  refused: (answer: Acceptance) => SidaError;
}

export class Submission {
  /** The outcome of an accepted job. Rejects when the job was not accepted. */
  readonly outcome: Promise<JobOutcome | SidaError>;
  readonly #ledger: RedisLedger;
  readonly #job: NewJob;
  readonly #follower: JobFollower;
  readonly #deadline: NodeJS.Timeout;
  readonly #signal: AbortSignal | undefined;
  readonly #onAbort = () => this.giveUp(clientGone());
  #accepted = false;
  #settled = false;
  #resolve!: (outcome: JobOutcome | SidaError) => void;
  #reject!: (error: SidaError) => void;

  constructor(
    ledger: RedisLedger,
    news: LedgerNews,
    job: NewJob,
    { signal, onDelta }: JobOptions,
    events: SubmissionEvents,
  ) {
    this.#ledger = ledger;
    this.#job = job;
    this.#signal = signal;
    this.outcome = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.#follower = new JobFollower(ledger, job.id, {
      onRecord: (record) => this.#onRecord(record),
      onTotals: events.onTotals,
      onBroken: (error) => this.giveUp(error),
      ...(onDelta !== undefined && { onDelta }),
    });
    signal?.addEventListener('abort', this.#onAbort, { once: true });
    this.#deadline = setTimeout(() => this.giveUp(expired(job.deadlineMs)), job.deadlineMs);
    void this.#begin(news, events);
  }

  /** Gives the client this error and ends the job. If Redis cannot be reached, the ledger's deadline ends it. */
  giveUp(error: SidaError): void {
    if (this.#settled) return;
    this.#stop(error);
    this.#settle(() => this.#resolve(error));
  }

  async #begin(news: LedgerNews, events: SubmissionEvents): Promise<void> {
    try {
      // The subscription is sent first, so that no signal is missed.
      const [, answer] = await soon(
        Promise.all([this.#follower.start(news), this.#ledger.accept(this.#job)]),
      );
      if (answer.as === 'accepted') {
        this.#accepted = true;
        events.onAccepted();
      } else this.#settle(() => this.#reject(events.refused(answer)));
    } catch (error) {
      // Redis may have accepted the job before it went away.
      this.#stop(clientGone());
      this.#settle(() => this.#reject(error instanceof SidaError ? error : unreachable(error)));
    }
  }

  #onRecord(record: LedgerRecord | undefined): void {
    // There is no record before the job is accepted.
    if (this.#settled || (record === undefined && !this.#accepted)) return;
    const outcome = outcomeOf(record);
    if (outcome === undefined) return;
    this.#settle(() => this.#resolve(outcome));
    if (!(outcome instanceof SidaError)) this.#ledger.taken(this.#job.id).catch(() => undefined);
  }

  #stop(error: SidaError): void {
    const status = error.code === 'cancelled' ? 'cancelled' : 'failed';
    this.#ledger.stop(this.#job.id, status, error.toBody()).catch(() => undefined);
  }

  #settle(settle: () => void): void {
    if (this.#settled) return;
    this.#settled = true;
    clearTimeout(this.#deadline);
    this.#signal?.removeEventListener('abort', this.#onAbort);
    this.#follower.end();
    settle();
  }
}

/** The outcome of an ended or lost job; undefined while the job runs or waits. */
function outcomeOf(record: LedgerRecord | undefined): JobOutcome | SidaError | undefined {
  if (record === undefined) return lost();
  const { status, result, error, createdMs, startedMs, attempts } = record;
  if (status === 'queued' || status === 'running') return undefined;
  if (result !== null)
    return { result, queueMs: Math.max(0, (startedMs ?? createdMs) - createdMs), attempts };
  return new SidaError(error ?? { code: 'internal', message: `The job ended as ${status} without a reason` });
}
