/**
 * The interface of the job queue in front of the engine. A queue refuses jobs early, runs them again after a crash,
 * and answers each job exactly once.
 */

import type { ErrorBody } from '../errors.js';
import type { AnswerForm, CompletionDelta, JobRequest, JobResult } from '../protocol/engine-messages.js';

export interface JobOptions {
  /** The owner of the job. The queue in memory shares the engine fairly between owners. */
  owner?: string;
  /** Aborting removes a waiting job and cancels a running one. */
  signal?: AbortSignal;
  /** Receives the deltas of a streamed completion. After the first delta, the job never runs again. */
  onDelta?: (delta: CompletionDelta) => void;
}

export interface JobOutcome {
  result: JobResult;
  /** Milliseconds from submission to the start of the run that gave the result. */
  queueMs: number;
  /** Number of runs; more than 1 after a crash of the engine. */
  attempts: number;
}

export interface QueueStats {
  waiting: number;
  /** Since when the longest-waiting job waits, by the monotonic clock; in Redis, the job that is next. */
  waitingSinceMs: number | undefined;
  /** Milliseconds until those that wait now have begun, about. */
  waitMs: number;
  active: number;
  /** This field and those below, up to `outages`, are totals since the start. */
  accepted: number;
  completed: number;
  failed: number;
  cancelled: number;
  /** Jobs refused because the queue was full. */
  refused: number;
  /** Runs repeated after a crash of the engine. */
  retried: number;
  /** Jobs that the queue gave up because they were running in too many crashes. */
  quarantined: number;
  /** Jobs that passed their deadline. */
  expired: number;
  /** Late results dropped because another run had replaced theirs. Undefined for the queue in memory. */
  fenced?: number;
  /** Times Redis was lost: the connection broke, or a command got no answer. */
  outages: number;
  /** Round-trip time of the last status query to Redis, in seconds; 0 for the queue in memory. */
  redisSeconds: number;
  kept: KeptStats;
}

/** Figures of kept jobs, as far as this process knows. The totals in `QueueStats` include kept jobs. */
export interface KeptStats {
  queued: number;
  running: number;
  /** Jobs that have ended and are still kept. */
  ended: number;
  /** Of these, jobs without an answer: failed, expired or cancelled. */
  failed: number;
  /** Bytes of the answers of those ended jobs; 0 for a queue in Redis, which does not count them. */
  answerBytes: number;
  /** Listeners on kept jobs. */
  watching: number;
  /** Requests since the start that repeated an earlier request under the same idempotency key. */
  repeated: number;
  /** Requests since the start refused because their idempotency key belonged to a different request. */
  conflicts: number;
  /**
   * Ended jobs that the queue dropped, by the limit that was reached: age, bytes of answers, or number of jobs.
   * A queue in Redis does not count them.
   */
  dropped: Record<DropReason, number>;
}

export const DROP_REASONS = ['retention', 'bytes', 'number'] as const;
export type DropReason = (typeof DROP_REASONS)[number];

export function noStats(): QueueStats {
  return {
    waiting: 0,
    waitingSinceMs: undefined,
    waitMs: 0,
    active: 0,
    accepted: 0,
    completed: 0,
    failed: 0,
    cancelled: 0,
    refused: 0,
    retried: 0,
    quarantined: 0,
    expired: 0,
    outages: 0,
    redisSeconds: 0,
    kept: {
      queued: 0,
      running: 0,
      ended: 0,
      failed: 0,
      answerBytes: 0,
      watching: 0,
      repeated: 0,
      conflicts: 0,
      dropped: { retention: 0, bytes: 0, number: 0 },
    },
  };
}

export const JOB_STATUSES = ['queued', 'running', 'completed', 'failed', 'cancelled'] as const;
export type JobStatus = (typeof JOB_STATUSES)[number];

/** A job whose answer is kept, so that a client can ask for it later. */
export interface JobRecord {
  id: string;
  kind: JobRequest['kind'];
  status: JobStatus;
  /** Unix milliseconds. */
  createdMs: number;
  /** How to write the answer. The process that writes it may not have the request. */
  form: AnswerForm;
  /** Unix milliseconds at which the latest run started; null before the first run. */
  startedMs: number | null;
  /** Unix milliseconds at which the job ended; null before that. */
  finishedMs: number | null;
  /** Runs so far. */
  attempts: number;
  /** Null until the job has completed. */
  result: JobResult | null;
  /** Null unless the job has failed or was cancelled. */
  error: ErrorBody | null;
}

/** How a kept job ended, for the log and the metrics. */
export type KeptEnd = Pick<
  JobRecord,
  'id' | 'status' | 'createdMs' | 'startedMs' | 'finishedMs' | 'attempts' | 'result' | 'error'
> & { kind: string };

export function hasEnded({ status }: Pick<JobRecord, 'status'>): boolean {
  return status !== 'queued' && status !== 'running';
}

export interface Idempotency {
  key: string;
  /** Digest of the request. The queue refuses the same key with another digest. */
  digest: string;
}

export interface Accepted {
  record: JobRecord;
  /** False when an earlier request with the same idempotency key created the job. */
  created: boolean;
}

export type JobEvent =
  | { type: 'status'; record: JobRecord }
  /** A delta of a streamed completion. `attempt` counts the runs; each run starts the stream again. */
  | { type: 'delta'; attempt: number; delta: CompletionDelta }
  /** The queue no longer has the job, because Redis has lost its record. No other event follows. */
  | { type: 'lost' };

export interface JobQueue {
  readonly stats: QueueStats;
  /** Why no job can run now, as a message for clients. Undefined when the queue is ready; the engine may not be. */
  readonly outage?: string | undefined;
  /**
   * Resolves with the job's answer; rejects with SidaError. A job without an answer in time is given up; a stream has
   * only its first delta to give in time.
   */
  submit(id: string, request: JobRequest, options?: JobOptions): Promise<JobOutcome>;
  /**
   * Accepts a job whose answer is kept. Resolves once the job is accepted; rejects with queue_full,
   * idempotency_conflict, not_ready or shutting_down. Only `owner` can see the job.
   */
  enqueue(id: string, owner: string, request: JobRequest, idempotency?: Idempotency): Promise<Accepted>;
  /**
   * The job that an earlier request of `owner` created with the key, or undefined. Rejects with idempotency_conflict
   * when that request was a different one.
   */
  repeated(owner: string, idempotency: Idempotency): Promise<JobRecord | undefined>;
  /** Resolves with undefined when the job is unknown, belongs to another owner, or is no longer kept. */
  find(id: string, owner: string): Promise<JobRecord | undefined>;
  /** Cancels a job unless it has ended. Resolves with its record, or with undefined as `find` does. */
  cancel(id: string, owner: string): Promise<JobRecord | undefined>;
  /**
   * Reports the deltas of the current run so far, then every new status and delta, until the job ends or is lost, or
   * the returned function is called. Resolves with undefined as `find` does.
   */
  watch(id: string, owner: string, listener: (event: JobEvent) => void): Promise<(() => void) | undefined>;
  /** Refuses new jobs with `shutting_down`. Resolves true when no job is left, false when `drainMs` passes first. */
  drain(drainMs: number): Promise<boolean>;
}
