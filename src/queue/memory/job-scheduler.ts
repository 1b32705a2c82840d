/**
 * Sends jobs to the engine, of each owner the job that is due first (due-time.ts). The scheduler refuses jobs early,
 * runs a job again after a crash, and gives up a job that crashes the engine. A job ends once; later outcomes are
 * dropped.
 */
import { clockMs } from '../../clock.js';
import type { EngineHandle, EngineState } from '../../engine/engine-handle.js';
import { SidaError } from '../../errors.js';
import type { CompletionDelta, JobRequest } from '../../protocol/engine-messages.js';
import { dueTime } from '../../scheduler/due-time.js';
import { nextTurn } from '../../scheduler/turns.js';
import { taskOf } from '../../tasks/registry.js';
import { type JobOutcome, noStats, type QueueStats } from '../job-queue.js';
import { expired, queueBytesFull, queueFull, shuttingDown } from '../refusals.js';

export interface SchedulerOptions {
  /** Most jobs that may wait. */
  bound: number;
  /** Most bytes of all jobs that wait. A job that is larger may wait alone. */
  boundBytes: number;
  /** Most jobs in the engine at a time; the engine batches them. */
  concurrency: number;
  /**
   * Input tokens that the jobs in the engine may have together, not counting its oldest job, once there is more than
   * one owner. The engine runs these tokens before those of a new job. An owner that holds less than a fair share of
   * the limit may still add a job when the limit is reached.
   */
  readonly tokens: number;
  /** Most runs of one job. */
  attempts: number;
}

export interface NewJob {
  id: string;
  /** Owners share the engine fairly. */
  owner: string;
  request: JobRequest;
  /** Milliseconds from acceptance to the end; to the first delta where deltas are not repeated. */
  deadlineMs: number;
  /** Receives the deltas of a streamed completion, with the number of their run. */
  onDelta?: (delta: CompletionDelta, attempt: number) => void;
  /** Whether the job may run again after `onDelta` has received deltas. */
  repeatsDeltas: boolean;
  /** A run of the job starts. */
  onRun?: (attempt: number) => void;
  /** The job waits again after `attempts` runs. */
  onRequeue?: (attempts: number) => void;
  onEnd: (outcome: JobOutcome | SidaError) => void;
}

interface Job extends NewJob {
  order: number;
  /** Without a quote the job counts as long. */
  dueMs: number;
  quoted: boolean;
  /** Input tokens. */
  tokens: number;
  bytes: number;
  submittedAt: number;
  startedAt: number;
  attempts: number;
  crashes: number;
  /** No other job was in the engine at any time of the current run. */
  alone: boolean;
  /** `onDelta` has received a delta. */
  streamed: boolean;
  ended: boolean;
  deadline: NodeJS.Timeout | undefined;
  abort: AbortController;
}

/** Ends a job; does nothing when the job has ended. */
export type EndJob = (error: SidaError) => void;

export class JobScheduler {
  readonly stats: QueueStats = noStats();
  readonly #engine: EngineHandle;
  readonly #options: SchedulerOptions;
  /** Waiting jobs in the order of submission. */
  readonly #waiting: Job[] = [];
  readonly #active = new Set<Job>();
  /** Accepted jobs that have not ended, whether they wait or run. */
  readonly #open = new Set<Job>();
  /** Every owner seen since the start. */
  readonly #owners = new Set<string>();
  #nextOrder = 0;
  #quoting = false;
  #draining = false;
  #whenEmpty: (() => void) | undefined;
  /** Running average of a run's duration, for Retry-After. */
  #runMs = 100;

  constructor(engine: EngineHandle, options: SchedulerOptions) {
    this.#engine = engine;
    this.#options = options;
    engine.onState((state) => this.#onEngineState(state));
  }

  /** Throws queue_full, not_ready or shutting_down when a new job must be refused. */
  admit(request: JobRequest): void {
    if (this.#draining) throw shuttingDown();
    const { phase } = this.#engine.state;
    if (phase === 'failed' || phase === 'closed') throw unservable();
    const { bound, boundBytes } = this.#options;
    const waits = this.#waiting.reduce((sum, { bytes }) => sum + bytes, 0);
    const bytes = waits + taskOf(request).tokens.bytes(request);
    const fits = bytes <= boundBytes || waits === 0;
    if (this.#waiting.length < bound && fits) return;
    this.stats.refused += 1;
    const seconds = this.#msOf(this.#waiting.length + this.#active.size) / 1000;
    throw fits ? queueFull(bound, seconds) : queueBytesFull(bytes, boundBytes, seconds);
  }

  /** Adds a job after `admit` has passed. The job may start before this returns, but it does not end before. */
  add(newJob: NewJob): EndJob {
    this.stats.accepted += 1;
    const submittedAt = performance.now();
    const runsModel = taskOf(newJob.request).engine.runs === 'model';
    const job: Job = {
      ...newJob,
      order: this.#nextOrder++,
      dueMs: dueTime(submittedAt, runsModel ? Number.POSITIVE_INFINITY : 0, newJob.deadlineMs),
      quoted: !runsModel,
      tokens: taskOf(newJob.request).tokens.input(newJob.request),
      bytes: taskOf(newJob.request).tokens.bytes(newJob.request),
      submittedAt,
      startedAt: 0,
      attempts: 0,
      crashes: 0,
      alone: false,
      streamed: false,
      ended: false,
      deadline: undefined,
      abort: new AbortController(),
    };
    job.deadline = setTimeout(() => this.#end(job, expired(job.deadlineMs)), job.deadlineMs);
    this.#open.add(job);
    this.#owners.add(job.owner);
    this.#enqueue(job);
    this.#pump();
    void this.#quoteWaiting();
    return (error) => this.#end(job, error);
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
    for (const job of [...this.#open]) this.#end(job, shuttingDown());
    return finished;
  }

  #end(job: Job, outcome: JobOutcome | SidaError): void {
    if (job.ended) return;
    job.ended = true;
    clearTimeout(job.deadline);
    this.#count(outcome);
    this.#leave(job);
    job.onEnd(outcome);
  }

  #enqueue(job: Job): void {
    const at = this.#waiting.findLastIndex((other) => other.order < job.order) + 1;
    this.#waiting.splice(at, 0, job);
    this.#countWaiting();
  }

  /** Time in which so many jobs run. No job is active while the engine starts. */
  #msOf(jobs: number): number {
    return (this.#runMs * jobs) / (this.#active.size || this.#options.concurrency);
  }

  #countWaiting(): void {
    this.stats.waitMs = this.#msOf(this.#waiting.length);
    this.stats.waiting = this.#waiting.length;
    this.stats.waitingSinceMs = this.#waiting[0]?.submittedAt;
  }

  #requeue(job: Job): void {
    this.#enqueue(job);
    job.onRequeue?.(job.attempts);
    this.#onEngineState(this.#engine.state);
  }

  /** Removes an ended job. A running job keeps its place in the engine until its run ends. */
  #leave(job: Job): void {
    this.#open.delete(job);
    const at = this.#waiting.indexOf(job);
    if (at >= 0) this.#waiting.splice(at, 1);
    this.#countWaiting();
    job.abort.abort();
    if (this.#open.size === 0) this.#whenEmpty?.();
    if (at >= 0) this.#pump();
  }

  #pump(): void {
    while (this.#engine.state.phase === 'ready') {
      const job = this.#next();
      if (job === undefined || this.#active.size >= this.#options.concurrency) return;
      // A job that was running in two crashes runs alone, so that a third crash shows whether the job causes them.
      if (this.#suspect(job) && this.#active.size > 0) return;
      for (const running of this.#active) {
        if (this.#suspect(running)) return;
        running.alone = false;
      }
      this.#waiting.splice(this.#waiting.indexOf(job), 1);
      this.#countWaiting();
      void this.#run(job);
    }
  }

  /** Asks the engine for quotes, one at a time: the text of a waiting job is read once more for that. */
  async #quoteWaiting(): Promise<void> {
    if (this.#quoting || this.#engine.computes === undefined) return;
    this.#quoting = true;
    for (;;) {
      const job = this.#waiting.find(({ quoted }) => !quoted);
      if (job === undefined || this.#engine.state.phase !== 'ready') break;
      try {
        const reply = await this.#engine.control({ kind: 'quote', job: job.request });
        const { maxSeconds = Number.POSITIVE_INFINITY } = job.request;
        const leftMs = Math.min(job.deadlineMs, maxSeconds * 1000);
        if (reply.kind === 'quote') job.dueMs = dueTime(job.submittedAt, reply.quote.aloneSeconds, leftMs);
      } catch (error) {
        if (SidaError.from(error).code === 'not_ready') break;
        // A job that cannot be quoted fails soon, so it is short.
        job.dueMs = job.submittedAt;
      }
      job.quoted = true;
    }
    this.#quoting = false;
  }

  /** The waiting job whose turn it is, by tokens in the engine. Undefined when no job may start. */
  #next(): Job | undefined {
    const held = new Map<string, number>();
    const places = new Map<string, number>();
    for (const { owner, tokens } of this.#active) {
      held.set(owner, (held.get(owner) ?? 0) + tokens);
      places.set(owner, (places.get(owner) ?? 0) + 1);
    }
    const most = this.#mostPlaces();
    const limit = this.#full() ? this.#options.tokens / (held.size + 1) : Number.POSITIVE_INFINITY;
    const of = (owner: string) => held.get(owner) ?? 0;
    const may = this.#waiting.filter(({ owner }) => of(owner) < limit && (places.get(owner) ?? 0) < most);
    return nextTurn(may, of);
  }

  /**
   * Places that an owner may hold to get another one, so that jobs of few tokens do not take all of them. One owner
   * alone fills three quarters, and some always stay free, as in admission/queue-share.ts.
   */
  #mostPlaces(): number {
    if (this.#owners.size < 2) return Number.POSITIVE_INFINITY;
    return Math.max(1, 3 * (this.#options.concurrency - this.#active.size));
  }

  #full(): boolean {
    if (this.#owners.size < 2) return false;
    // A job counts in full until its last input is done. The younger jobs alone must therefore suffice to fill
    // batches.
    const [, ...younger] = this.#active;
    return younger.reduce((sum, { tokens }) => sum + tokens, 0) >= this.#options.tokens;
  }

  /** The job may be the cause of the crashes. */
  #suspect(job: Job): boolean {
    return job.crashes >= 2;
  }

  async #run(job: Job): Promise<void> {
    job.alone = this.#active.size === 0;
    job.attempts += 1;
    job.startedAt = performance.now();
    this.#active.add(job);
    this.stats.active = this.#active.size;
    job.onRun?.(job.attempts);
    try {
      const attempt = job.attempts;
      const arrivedMs = clockMs() + job.submittedAt - performance.now();
      const result = await this.#engine.run(job.id, job.request, {
        signal: job.abort.signal,
        times: { arrivedMs, deadlineMs: arrivedMs + job.deadlineMs },
        ...(job.onDelta !== undefined && { onDelta: (delta) => this.#onDelta(job, delta, attempt) }),
      });
      const now = performance.now();
      this.#runMs += (now - job.startedAt - this.#runMs) / 16;
      this.#end(job, { result, queueMs: job.startedAt - job.submittedAt, attempts: job.attempts });
    } catch (error) {
      this.#onRunFailed(job, SidaError.from(error));
    } finally {
      this.#active.delete(job);
      this.stats.active = this.#active.size;
      this.#pump();
    }
  }

  #onDelta(job: Job, delta: CompletionDelta, attempt: number): void {
    if (job.ended) return;
    job.streamed = true;
    if (!job.repeatsDeltas) clearTimeout(job.deadline);
    job.onDelta?.(delta, attempt);
  }

  #onRunFailed(job: Job, error: SidaError): void {
    if (job.ended) return;
    // The engine was no longer ready when it received the job, so the job never ran.
    if (error.code === 'not_ready' && this.#engine.state.phase !== 'ready') {
      job.attempts -= 1;
      this.#requeue(job);
      return;
    }
    if (error.code !== 'engine_crashed') {
      this.#end(job, error);
      return;
    }
    job.crashes += 1;
    if (job.streamed && !job.repeatsDeltas) {
      const message = 'The engine stopped while this answer was being streamed; send the request again';
      this.#end(job, crashed(message));
    } else if ((job.crashes >= 2 && job.alone) || job.attempts >= this.#options.attempts) {
      this.stats.quarantined += 1;
      const message = `This request was given up: it was running in ${job.crashes} crashes of the engine, so it is not run again`;
      this.#end(job, crashed(message));
    } else {
      this.stats.retried += 1;
      this.#requeue(job);
    }
  }

  #onEngineState(state: EngineState): void {
    if (state.phase === 'ready') {
      this.#pump();
      void this.#quoteWaiting();
    }
    if (state.phase === 'failed' || state.phase === 'closed') {
      for (const job of [...this.#waiting]) this.#end(job, this.#draining ? shuttingDown() : unservable());
    }
  }

  #count(outcome: JobOutcome | SidaError): void {
    if (!(outcome instanceof SidaError)) this.stats.completed += 1;
    else if (outcome.code === 'cancelled') this.stats.cancelled += 1;
    else if (outcome.code === 'deadline_exceeded') this.stats.expired += 1;
    else this.stats.failed += 1;
  }
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
