/** A queue of jobs in front of the engine: refuses early, runs again after a crash, answers each job once. */
import type { CompletionDelta, JobRequest, JobResult } from '../engine/messages.js';
import type { ErrorBody } from '../errors.js';

export interface JobOptions {
  /** Aborting removes a waiting job and cancels a running one. */
  signal?: AbortSignal;
  /** Receives the pieces of a streamed completion. A job whose pieces were seen is never run again. */
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
}

export const JOB_STATUSES = ['queued', 'running', 'completed', 'failed', 'cancelled'] as const;
export type JobStatus = (typeof JOB_STATUSES)[number];

/** A job whose answer is kept for whoever asks later. */
export interface JobRecord {
  id: string;
  kind: JobRequest['kind'];
  status: JobStatus;
  /** Unix milliseconds. */
  createdMs: number;
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
  /** A piece of a streamed completion. A run that begins again begins its pieces again: `attempt` counts the runs. */
  | { type: 'delta'; attempt: number; delta: CompletionDelta };

export interface JobQueue {
  readonly stats: QueueStats;
  /** Resolves with the one answer of the job; rejects with SidaError. */
  submit(id: string, request: JobRequest, options?: JobOptions): Promise<JobOutcome>;
  /**
   * Accepts a job whose answer is kept. Resolves once it is accepted; rejects with queue_full, idempotency_conflict,
   * not_ready or shutting_down. `owner`: who may see it.
   */
  enqueue(id: string, owner: string, request: JobRequest, idempotency?: Idempotency): Promise<Accepted>;
  /** Undefined: unknown, of another owner, or no longer kept. */
  find(id: string, owner: string): Promise<JobRecord | undefined>;
  /** Ends a job that has not ended; resolves with its record, undefined as `find`. */
  cancel(id: string, owner: string): Promise<JobRecord | undefined>;
  /** Tells what happens from now on, until the returned function is called; undefined as `find`. */
  watch(id: string, owner: string, listener: (event: JobEvent) => void): Promise<(() => void) | undefined>;
  /** Refuses new jobs with `shutting_down`; resolves true when none is left, false when `drainMs` ended first. */
  drain(drainMs: number): Promise<boolean>;
}
