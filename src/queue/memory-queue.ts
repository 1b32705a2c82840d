/**
 * A job queue in this process's memory. One job runs again after a crash of the engine, so its answer is at most once:
 * the first settlement wins and later ones are dropped.
 */
import type { EngineHandle, EngineState } from '../engine/engine-handle.js';
import type { CompletionDelta, JobRequest } from '../engine/messages.js';
import { SidaError } from '../errors.js';
import type { JobOptions, JobOutcome, JobQueue, QueueStats } from './job-queue.js';

export interface MemoryQueueOptions {
  /** Jobs that may wait. */
  bound: number;
  /** From submission to the answer. */
  deadlineMs: number;
  /** Jobs in the engine at a time; the engine batches them. */
  concurrency?: number;
  /** Runs of one job at most. */
  attempts?: number;
}

interface Job {
  id: string;
  order: number;
  request: JobRequest;
  submittedAt: number;
  startedAt: number;
  attempts: number;
  crashes: number;
  /** No other job was in the engine at any time of the current run. */
  alone: boolean;
  /** Pieces were handed to the client. */
  streamed: boolean;
  settled: boolean;
  abort: AbortController;
  onDelta: ((delta: CompletionDelta) => void) | undefined;
  settle: (outcome: JobOutcome | SidaError) => void;
}

export class MemoryQueue implements JobQueue {
  readonly stats: QueueStats = {
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
  };
  readonly #engine: EngineHandle;
  readonly #bound: number;
  readonly #deadlineMs: number;
  readonly #concurrency: number;
  readonly #attempts: number;
  /** In the order of submission. */
  readonly #waiting: Job[] = [];
  readonly #active = new Set<Job>();
  /** Accepted and not answered yet: waiting, or running without having been settled early. */
  readonly #open = new Set<Job>();
  #nextOrder = 0;
  #draining = false;
  #whenEmpty: (() => void) | undefined;
  /** Running average of a run, for Retry-After. */
  #runMs = 100;

  constructor(engine: EngineHandle, options: MemoryQueueOptions) {
    this.#engine = engine;
    this.#bound = options.bound;
    this.#deadlineMs = options.deadlineMs;
    this.#concurrency = options.concurrency ?? 64;
    this.#attempts = options.attempts ?? 3;
    engine.onState((state) => this.#onEngineState(state));
  }

  submit(id: string, request: JobRequest, options: JobOptions = {}): Promise<JobOutcome> {
    const refusal = this.#refusal(options.signal);
    if (refusal !== undefined) return Promise.reject(refusal);
    this.stats.accepted += 1;
    return new Promise((resolve, reject) => {
      const job: Job = {
        id,
        order: this.#nextOrder++,
        request,
        submittedAt: performance.now(),
        startedAt: 0,
        attempts: 0,
        crashes: 0,
        alone: false,
        streamed: false,
        settled: false,
        abort: new AbortController(),
        onDelta: options.onDelta,
        settle: (outcome) => {
          if (job.settled) return;
          job.settled = true;
          clearTimeout(deadline);
          options.signal?.removeEventListener('abort', onAbort);
          this.#count(outcome);
          this.#leave(job);
          if (outcome instanceof SidaError) reject(outcome);
          else resolve(outcome);
        },
      };
      const onAbort = () => job.settle(new SidaError({ code: 'cancelled', message: 'The client went away' }));
      options.signal?.addEventListener('abort', onAbort, { once: true });
      const deadline = setTimeout(() => job.settle(this.#expired()), this.#deadlineMs);
      this.#open.add(job);
      this.#enqueue(job);
      this.#pump();
    });
  }

  async drain(drainMs: number): Promise<boolean> {
    this.#draining = true;
    if (this.#open.size === 0) return true;
    const timer = new AbortController();
    const finished = await Promise.race([
      new Promise<boolean>((resolve) => {
        this.#whenEmpty = () => resolve(true);
      }),
      new Promise<boolean>((resolve) => {
        const timeout = setTimeout(() => resolve(false), drainMs);
        timer.signal.addEventListener('abort', () => clearTimeout(timeout));
      }),
    ]);
    timer.abort();
    for (const job of [...this.#open]) job.settle(shuttingDown());
    return finished;
  }

  #refusal(signal: AbortSignal | undefined): SidaError | undefined {
    if (signal?.aborted) return new SidaError({ code: 'cancelled', message: 'The client went away' });
    if (this.#draining) return shuttingDown();
    const { phase } = this.#engine.state;
    if (phase === 'failed' || phase === 'closed') return unservable();
    if (this.#waiting.length < this.#bound) return undefined;
    this.stats.refused += 1;
    const seconds = (this.#runMs * (this.#waiting.length + this.#active.size)) / this.#concurrency / 1000;
    return new SidaError({
      code: 'queue_full',
      message: `The queue is full: ${this.#bound} requests are waiting, which is its limit; try again later`,
      details: { retry_after_s: Math.min(60, Math.max(1, Math.ceil(seconds))), limit: this.#bound },
    });
  }

  #enqueue(job: Job): void {
    const at = this.#waiting.findLastIndex((other) => other.order < job.order) + 1;
    this.#waiting.splice(at, 0, job);
    this.stats.waiting = this.#waiting.length;
  }

  /** Takes a settled job out of wherever it is. A running one keeps its place in the engine until its run ends. */
  #leave(job: Job): void {
    this.#open.delete(job);
    const at = this.#waiting.indexOf(job);
    if (at >= 0) this.#waiting.splice(at, 1);
    this.stats.waiting = this.#waiting.length;
    job.abort.abort();
    if (this.#open.size === 0) this.#whenEmpty?.();
    if (at >= 0) this.#pump();
  }

  #pump(): void {
    while (this.#engine.state.phase === 'ready') {
      const job = this.#waiting[0];
      if (job === undefined || this.#active.size >= this.#concurrency) return;
      // In flight in two crashes: it runs by itself, so that another crash names the culprit and spares the others.
      if (this.#suspect(job) && this.#active.size > 0) return;
      for (const running of this.#active) {
        if (this.#suspect(running)) return;
        running.alone = false;
      }
      this.#waiting.shift();
      this.stats.waiting = this.#waiting.length;
      void this.#run(job);
    }
  }

  #suspect(job: Job): boolean {
    return job.crashes >= 2;
  }

  async #run(job: Job): Promise<void> {
    job.alone = this.#active.size === 0;
    job.attempts += 1;
    job.startedAt = performance.now();
    this.#active.add(job);
    this.stats.active = this.#active.size;
    try {
      const result = await this.#engine.run(job.id, job.request, {
        signal: job.abort.signal,
        ...(job.onDelta !== undefined && { onDelta: (delta) => this.#onDelta(job, delta) }),
      });
      const now = performance.now();
      this.#runMs += (now - job.startedAt - this.#runMs) / 16;
      job.settle({ result, queueMs: job.startedAt - job.submittedAt, attempts: job.attempts });
    } catch (error) {
      this.#onRunFailed(job, SidaError.from(error));
    } finally {
      this.#active.delete(job);
      this.stats.active = this.#active.size;
      this.#pump();
    }
  }

  #onDelta(job: Job, delta: CompletionDelta): void {
    if (job.settled) return;
    job.streamed = true;
    job.onDelta?.(delta);
  }

  #onRunFailed(job: Job, error: SidaError): void {
    if (job.settled) return;
    // The engine left `ready` between the pump's look and its own: the job never ran.
    if (error.code === 'not_ready' && this.#engine.state.phase !== 'ready') {
      job.attempts -= 1;
      this.#enqueue(job);
      this.#onEngineState(this.#engine.state);
      return;
    }
    if (error.code !== 'engine_crashed') {
      job.settle(error);
      return;
    }
    job.crashes += 1;
    if (job.streamed) {
      job.settle(crashed('The engine stopped while this answer was being streamed; send the request again'));
    } else if ((job.crashes >= 2 && job.alone) || job.attempts >= this.#attempts) {
      this.stats.quarantined += 1;
      job.settle(
        crashed(
          `This request was given up: it was running in ${job.crashes} crashes of the engine, so it is not run again`,
        ),
      );
    } else {
      this.stats.retried += 1;
      this.#enqueue(job);
      this.#onEngineState(this.#engine.state);
    }
  }

  #onEngineState(state: EngineState): void {
    if (state.phase === 'ready') this.#pump();
    if (state.phase === 'failed' || state.phase === 'closed') {
      for (const job of [...this.#waiting]) job.settle(this.#draining ? shuttingDown() : unservable());
    }
  }

  #expired(): SidaError {
    return new SidaError({
      code: 'deadline_exceeded',
      message: `The request was not answered within its deadline of ${this.#deadlineMs / 1000} s`,
    });
  }

  #count(outcome: JobOutcome | SidaError): void {
    if (!(outcome instanceof SidaError)) this.stats.completed += 1;
    else if (outcome.code === 'cancelled') this.stats.cancelled += 1;
    else if (outcome.code === 'deadline_exceeded') this.stats.expired += 1;
    else this.stats.failed += 1;
  }
}

function shuttingDown(): SidaError {
  return new SidaError({
    code: 'shutting_down',
    message: 'The server is shutting down; send the request again',
  });
}

function unservable(): SidaError {
  return new SidaError({
    code: 'not_ready',
    message: 'The engine cannot serve its model; the server log says why',
  });
}

function crashed(message: string): SidaError {
  return new SidaError({ code: 'engine_crashed', message });
}
