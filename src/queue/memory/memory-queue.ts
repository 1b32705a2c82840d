/** A job queue in this process's memory. Its jobs are lost when the process ends. */
import type { EngineHandle } from '../../engine/engine-handle.js';
import { SidaError } from '../../errors.js';
import type { JobRequest } from '../../protocol/engine-messages.js';
import type {
  Accepted,
  Idempotency,
  JobEvent,
  JobOptions,
  JobOutcome,
  JobQueue,
  JobRecord,
  QueueStats,
} from '../job-queue.js';
import { cancelled, clientGone, deltasTooLarge, QUEUE_BYTES } from '../refusals.js';
import { type EndJob, JobScheduler } from './job-scheduler.js';
import { KeptJobs } from './kept-jobs.js';

const HOUR_MS = 3_600_000;

export interface MemoryQueueOptions {
  /** Most jobs that may wait. */
  bound: number;
  /** Most bytes of all jobs that wait. */
  boundBytes?: number;
  /** Milliseconds from submission to the answer, for jobs whose client waits; to the first delta of a stream. */
  deadlineMs: number;
  /** Milliseconds from acceptance to the end of a kept job. */
  keptDeadlineMs?: number;
  /** Most jobs in the engine at a time; the engine batches them. */
  concurrency?: number;
  /** Input tokens in the engine at a time when several owners share it; see SchedulerOptions. */
  engineTokens?: () => number;
  /** Most runs of one job. */
  attempts?: number;
  /** Milliseconds that an ended job is kept. */
  retentionMs?: number;
  /** Most bytes of all kept answers together. */
  answerBytes?: number;
  /** Most ended jobs that are kept. */
  answers?: number;
  /** Receives the last record of each kept job. */
  onKeptEnd?: (record: JobRecord) => void;
}

export class MemoryQueue implements JobQueue {
  readonly stats: QueueStats;
  readonly #deadlineMs: number;
  readonly #keptDeadlineMs: number;
  readonly #scheduler: JobScheduler;
  readonly #kept: KeptJobs;
  /** Functions that end the kept jobs that have not ended, by job id. */
  readonly #enders = new Map<string, EndJob>();

  constructor(engine: EngineHandle, options: MemoryQueueOptions) {
    this.#deadlineMs = options.deadlineMs;
    this.#keptDeadlineMs = options.keptDeadlineMs ?? HOUR_MS / 6;
    this.#scheduler = new JobScheduler(engine, {
      bound: options.bound,
      boundBytes: options.boundBytes ?? QUEUE_BYTES,
      concurrency: options.concurrency ?? 64,
      // It is known when the model is open.
      get tokens() {
        return options.engineTokens?.() ?? Number.POSITIVE_INFINITY;
      },
      attempts: options.attempts ?? 3,
    });
    this.stats = this.#scheduler.stats;
    this.#kept = new KeptJobs(
      {
        retentionMs: options.retentionMs ?? HOUR_MS,
        answerBytes: options.answerBytes ?? 64 * 1024 ** 2,
        answers: options.answers ?? 10_000,
      },
      this.stats.kept,
      options.onKeptEnd ?? (() => undefined),
    );
  }

  async submit(
    id: string,
    request: JobRequest,
    { owner = '', signal, onDelta }: JobOptions = {},
  ): Promise<JobOutcome> {
    if (signal?.aborted) throw clientGone();
    this.#scheduler.admit(request);
    return new Promise((resolve, reject) => {
      const onAbort = () => end(clientGone());
      const end = this.#scheduler.add({
        id,
        owner,
        request,
        deadlineMs: this.#deadlineMs,
        ...(onDelta !== undefined && { onDelta }),
        repeatsDeltas: false,
        onEnd: (outcome) => {
          signal?.removeEventListener('abort', onAbort);
          if (outcome instanceof SidaError) reject(outcome);
          else resolve(outcome);
        },
      });
      signal?.addEventListener('abort', onAbort, { once: true });
    });
  }

  async enqueue(
    id: string,
    owner: string,
    request: JobRequest,
    idempotency?: Idempotency,
  ): Promise<Accepted> {
    const earlier = idempotency && this.#kept.repeated(owner, idempotency);
    if (earlier !== undefined) return { record: earlier, created: false };
    this.#scheduler.admit(request);
    const record = this.#kept.add(id, owner, request, idempotency);
    const end = this.#scheduler.add({
      id,
      owner,
      request,
      deadlineMs: this.#keptDeadlineMs,
      onDelta: (delta, attempt) => {
        if (!this.#kept.delta(id, attempt, delta)) this.#enders.get(id)?.(deltasTooLarge());
      },
      repeatsDeltas: true,
      onRun: (attempt) => this.#kept.running(id, attempt),
      onRequeue: (attempts) => this.#kept.queued(id, attempts),
      onEnd: (outcome) => {
        this.#enders.delete(id);
        this.#kept.end(id, outcome);
      },
    });
    this.#enders.set(id, end);
    return { record, created: true };
  }

  async repeated(owner: string, idempotency: Idempotency): Promise<JobRecord | undefined> {
    return this.#kept.repeated(owner, idempotency);
  }

  async find(id: string, owner: string): Promise<JobRecord | undefined> {
    return this.#kept.find(id, owner);
  }

  async cancel(id: string, owner: string): Promise<JobRecord | undefined> {
    if (this.#kept.find(id, owner) === undefined) return undefined;
    this.#enders.get(id)?.(cancelled());
    return this.#kept.find(id, owner);
  }

  async watch(
    id: string,
    owner: string,
    listener: (event: JobEvent) => void,
  ): Promise<(() => void) | undefined> {
    return this.#kept.watch(id, owner, listener);
  }

  drain(drainMs: number): Promise<boolean> {
    return this.#scheduler.drain(drainMs);
  }
}
