/** A queue of jobs in front of the engine: refuses early, runs again after a crash, answers each job once. */

import type { ErrorBody } from '../errors.js';
import type { AnswerForm, CompletionDelta, JobRequest, JobResult } from '../protocol/engine-messages.js';

export interface JobOptions {
  /** The owner of the job. The queue in memory lets owners take turns. */
  owner?: string;
  /** Aborting removes a waiting job and cancels a running one. */
  signal?: AbortSignal;
  /** Receives the deltas of a streamed completion. A job whose deltas were seen never runs again. */
  onDelta?: (delta: CompletionDelta) => void;
}

export interface JobOutcome {
  result: JobResult;
  /** From submission to the start of the run that answered. */
  queueMs: number;
  /** Runs it took; more than 1 after a crash of the engine. */
  attempts: number;
}

export interface QueueStats {
  waiting: number;
  active: number;
  /** Totals since the start. */
  accepted: number;
  completed: number;
  failed: number;
  cancelled: number;
  /** Refused because the queue was full. */
  refused: number;
  /** Runs repeated after a crash of the engine. */
  retried: number;
  /** Jobs given up because they were in flight in too many crashes. */
  quarantined: number;
  /** Jobs past their deadline. */
  expired: number;
  /** Late results of runs that another run had replaced: dropped. Only a queue that others share has them. */
  fenced?: number;
  /** Times that Redis could not be reached: the connection broke, or no answer came. */
  outages: number;
  /** Time that Redis took for its last answer, with the way there and back. */
  redisSeconds: number;
  kept: KeptStats;
}

/** Of kept jobs, as far as this process knows. The totals above count kept jobs too. */
export interface KeptStats {
  queued: number;
  running: number;
  /** Ended and still kept. */
  ended: number;
  /** Bytes of the answers of those. */
  answerBytes: number;
  /** Listeners on kept jobs. */
  watching: number;
  /**
   * Totals since the start: requests that came again under their idempotency key, and other requests under a used
   * key.
   */
  repeated: number;
  conflicts: number;
  /** Ended jobs that were dropped: by age, or by the limits on the bytes of answers and on their number. */
  dropped: Record<DropReason, number>;
}

export const DROP_REASONS = ['retention', 'bytes', 'number'] as const;
export type DropReason = (typeof DROP_REASONS)[number];

export function noStats(): QueueStats {
  return {
    waiting: 0,
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

/** A job whose answer is kept: a client may ask for it later. */
export interface JobRecord {
  id: string;
  kind: JobRequest['kind'];
  status: JobStatus;
  /** Unix milliseconds. */
  createdMs: number;
  /** The process that is asked for the answer may not have the request. */
  form: AnswerForm;
  /** Of the run that answered or runs; null before the first. */
  startedMs: number | null;
  finishedMs: number | null;
  /** Runs so far. */
  attempts: number;
  /** Once completed. */
  result: JobResult | null;
  /** Once failed or cancelled. */
  error: ErrorBody | null;
}

/** How a kept job ended, for logs and figures. */
export type KeptEnd = Pick<
  JobRecord,
  'id' | 'status' | 'createdMs' | 'startedMs' | 'attempts' | 'result' | 'error'
> & {
  kind: string;
  /** Null: about now. */
  finishedMs: number | null;
};

export function hasEnded({ status }: JobRecord): boolean {
  return status !== 'queued' && status !== 'running';
}

export interface Idempotency {
  key: string;
  /** Of the request: the same key with another one is refused. */
  digest: string;
}

export interface Accepted {
  record: JobRecord;
  /** False: an earlier request with the same key made it. */
  created: boolean;
}

export type JobEvent =
  | { type: 'status'; record: JobRecord }
  /** A part of a streamed completion. Another run begins the stream again: `attempt` counts the runs. */
  | { type: 'delta'; attempt: number; delta: CompletionDelta };

export interface JobQueue {
  readonly stats: QueueStats;
  /** Why no job would run now, in words for a client. Undefined: the queue is ready; the engine may still not be. */
  readonly outage?: string | undefined;
  /** Resolves with the one answer of the job; rejects with SidaError. */
  submit(id: string, request: JobRequest, options?: JobOptions): Promise<JobOutcome>;
  /**
   * Accepts a job whose answer is kept. Resolves once it is accepted; rejects with queue_full, idempotency_conflict,
   * not_ready or shutting_down. Only `owner` may see the job.
   */
  enqueue(id: string, owner: string, request: JobRequest, idempotency?: Idempotency): Promise<Accepted>;
  /** Undefined: unknown, of another owner, or no longer kept. */
  find(id: string, owner: string): Promise<JobRecord | undefined>;
  /** Ends a job that has not ended; resolves with its record, undefined as `find`. */
  cancel(id: string, owner: string): Promise<JobRecord | undefined>;
  /**
   * Tells the deltas of the current run so far, then every status and delta from now on, until the job has ended or the
   * returned function is called; undefined as `find`.
   */
  watch(id: string, owner: string, listener: (event: JobEvent) => void): Promise<(() => void) | undefined>;
  /** Refuses new jobs with `shutting_down`; resolves true when none is left, false when `drainMs` ended first. */
  drain(drainMs: number): Promise<boolean>;
}
