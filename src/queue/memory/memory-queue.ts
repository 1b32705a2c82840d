/** A job queue in this process's memory. Its jobs end with the process. */
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
import { cancelled, clientGone } from '../refusals.js';
import { type EndJob, JobScheduler } from './job-scheduler.js';
import { KeptJobs } from './kept-jobs.js';

const HOUR_MS = 3_600_000;

export interface MemoryQueueOptions {
  /** Jobs that may wait. */
  bound: number;
  /** From submission to the answer, of jobs whose client waits. */
  deadlineMs: number;
  /** From acceptance to the end of a kept job. */
  keptDeadlineMs?: number;
  /** Jobs in the engine at a time; the engine batches them. */
  concurrency?: number;
  /** Tokens of inputs in the engine at a time where owners share it: see SchedulerOptions. */
  engineTokens?: number;
  /** Runs of one job at most. */
  attempts?: number;
  /** Limits of what is kept of ended jobs: time, bytes of their answers, and their number. */
  retentionMs?: number;
  answerBytes?: number;
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
  /** Of kept jobs that have not ended, by their ids. */
  readonly #enders = new Map<string, EndJob>();

  constructor(engine: EngineHandle, options: MemoryQueueOptions) {
    this.#deadlineMs = options.deadlineMs;
    this.#keptDeadlineMs = options.keptDeadlineMs ?? HOUR_MS / 6;
    this.#scheduler = new JobScheduler(engine, {
      bound: options.bound,
      concurrency: options.concurrency ?? 64,
      tokens: options.engineTokens ?? Number.POSITIVE_INFINITY,
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
    this.#scheduler.admit();
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
    this.#scheduler.admit();
    const record = this.#kept.add(id, owner, request, idempotency);
    const end = this.#scheduler.add({
      id,
      owner,
      request,
      deadlineMs: this.#keptDeadlineMs,
      onDelta: (delta, attempt) => this.#kept.delta(id, attempt, delta),
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
