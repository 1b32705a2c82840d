/** A queue of jobs in front of the engine: refuses early, runs again after a crash, answers each job once. */
import type { CompletionDelta, JobRequest, JobResult } from '../engine/messages.js';

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

export interface JobQueue {
  readonly stats: QueueStats;
  /** Resolves with the one answer of the job; rejects with SidaError. */
  submit(id: string, request: JobRequest, options?: JobOptions): Promise<JobOutcome>;
  /** Refuses new jobs with `shutting_down`; resolves true when none is left, false when `drainMs` ended first. */
  drain(drainMs: number): Promise<boolean>;
}
