/** Runs the jobs that BullMQ gives to a worker, and reports their deltas, ends and crashes to Redis. */
import { WaitingError } from 'bullmq';
import type { EngineHandle } from '../../engine/engine-handle.js';
import { SidaError } from '../../errors.js';
import type { Logger } from '../../observability/logger.js';
import type { JobOutcome, KeptEnd } from '../job-queue.js';
import type { JobScheduler } from '../memory/job-scheduler.js';
import { answerTooLarge, cancelled, streamBroken } from '../refusals.js';
import { DeltaWriter } from './deltas.js';
import { EVENTS_MS, INLINE_BYTES } from './queue-link.js';
import { later } from './redis-client.js';
import {
  dataOf,
  deadlineError,
  errorOf,
  failure,
  inOrder,
  type JobData,
  type Progress,
  progressOf,
  type Returned,
  recordOf,
  requestOf,
  resultText,
  runsBefore,
  type StoredJob,
} from './stored-job.js';

interface RunsOptions {
  engine: EngineHandle;
  scheduler: JobScheduler;
  logger: Logger;
  /** Most bytes of a kept answer. */
  answerBytes: number;
  /** Called for each kept job that this worker ends. */
  onKeptEnd: ((end: KeptEnd) => void) | undefined;
  /** Called for a run that lost its lock. */
  onLate: (reason: string) => void;
}

/** A larger request of an ended job is removed, since whoever reads the job would read it, too. */
const LARGE_REQUEST = 4_096;
/** Milliseconds between tries of a write that Redis refused for a while. */
const AGAIN_MS = 500;

export class JobRuns {
  readonly #options: RunsOptions;
  /** Ids of stopped jobs, with the times of the stops: a stop may come before its job. */
  readonly #stopped = new Map<string, number>();
  /** Records of the kept jobs whose runs have ended. */
  readonly #ends = new WeakMap<StoredJob, KeptEnd>();
  #leaving = false;
  /** Jobs that BullMQ gave up, because their workers were lost. */
  givenUp = 0;

  constructor(options: RunsOptions) {
    this.#options = options;
  }

  /** Hands back every job from now on. */
  leave(): void {
    this.#leaving = true;
  }

  /** A job with this id must not run. */
  remember(id: string): void {
    const now = performance.now();
    this.#stopped.set(id, now);
    for (const [old, at] of this.#stopped) {
      if (now - at < EVENTS_MS) break;
      this.#stopped.delete(old);
    }
  }

  /** The processor of BullMQ's worker. Rejects with the error that fails the job, or with WaitingError. */
  async run(job: StoredJob, token: string, signal: AbortSignal): Promise<Returned> {
    try {
      const data = dataOf(job);
      const streamed = progressOf(job.progress) !== undefined;
      if (data.stopped !== undefined) throw new SidaError(data.stopped.error as never);
      if (this.#stopped.has(job.id!)) throw cancelled();
      if (Date.now() > data.deadlineAt) throw deadlineError(job, data);
      // The client has seen a part of another run's answer.
      if (data.sync && streamed) throw streamBroken();
      if (this.#leaving) throw new WaitingError();
      const returned = await this.#run(job, data, signal);
      if (signal.reason === 'lost') throw new WaitingError();
      return returned;
    } catch (thrown) {
      if (signal.reason === 'lost') {
        // Another worker may have the job. BullMQ leaves a job as it is after this error.
        this.#options.onLate(`job ${job.id} has lost its lock`);
        throw new WaitingError();
      }
      if (thrown instanceof WaitingError) {
        await job.moveToWait(token);
        throw thrown;
      }
      const error = SidaError.from(thrown);
      if (error.code === 'internal') this.#options.logger.error({ job: job.id, err: error }, 'job failed');
      throw failure(error);
    }
  }

  async #run(job: StoredJob, data: JobData, signal: AbortSignal): Promise<Returned> {
    const { scheduler, engine } = this.#options;
    const base = runsBefore(job);
    let about: Omit<Progress, 'seq' | 'deltas'> = {
      turn: job.attemptsStarted,
      run: base + 1,
      startedMs: job.processedOn ?? Date.now(),
      queued: false,
    };
    let end: (error: SidaError) => void = () => undefined;
    let onEnd: (outcome: JobOutcome | SidaError) => void = () => undefined;
    const ended = new Promise<JobOutcome | SidaError>((resolve) => {
      onEnd = resolve;
    });
    const newWriter = () => {
      const run = { ...about };
      return new DeltaWriter({
        write: (seq, deltas) => this.#report(job, data, { ...run, seq, deltas }),
        onError: (error) => end(error),
      });
    };
    let writer = newWriter();
    // Clients see the runs of kept jobs only.
    const tell = (change: Partial<Progress>) => {
      about = { ...about, ...change };
      writer = newWriter();
      if (!data.sync) this.#report(job, data, { ...about, seq: 0, deltas: [] }).catch(() => undefined);
    };
    const request = requestOf(data);
    end = scheduler.add({
      // The engine may still have an earlier run of the job.
      id: `${job.attemptsStarted}/${job.id}`,
      owner: data.owner,
      request,
      deadlineMs: data.deadlineAt - Date.now(),
      ...(data.streams && { onDelta: (delta) => writer.add(delta) }),
      repeatsDeltas: !data.sync,
      onRun: (attempt) => {
        if (attempt > 1) tell({ run: base + attempt, queued: false, startedMs: Date.now() });
      },
      onRequeue: () => tell({ queued: true }),
      onEnd,
    });
    const onAbort = () => end(cancelled());
    signal.addEventListener('abort', onAbort, { once: true });
    if (signal.aborted) onAbort();
    const outcome = await ended;
    signal.removeEventListener('abort', onAbort);
    const { phase } = engine.state;
    if (outcome instanceof SidaError) {
      const gone = outcome.code === 'not_ready' && (phase === 'failed' || phase === 'closed');
      if (outcome.code === 'shutting_down' || gone) {
        if (!data.sync) tell({ queued: true });
        throw new WaitingError();
      }
      throw outcome.code === 'deadline_exceeded' ? deadlineError(job, data) : outcome;
    }
    await writer.written();
    return this.#returned(job, data, outcome, about);
  }

  async #returned(
    job: StoredJob,
    { sync }: JobData,
    { result }: JobOutcome,
    { run: attempts, startedMs }: Pick<Progress, 'run' | 'startedMs'>,
  ): Promise<Returned> {
    const text = resultText(result);
    const bytes = Buffer.byteLength(text);
    const { answerBytes } = this.#options;
    if (!sync && bytes > answerBytes) throw answerTooLarge(bytes, answerBytes);
    const { id, name: kind, timestamp: createdMs } = job;
    const end = { id: id!, kind, status: 'completed', createdMs, startedMs, attempts, error: null } as const;
    this.#ends.set(job, { ...end, finishedMs: null, result });
    if (bytes <= INLINE_BYTES) return { attempts, startedMs, result };
    const rows = await persist(() => job.log(text));
    // The client's server reads the answer, and removes the job.
    if (sync) job.opts.removeOnComplete = false;
    return { attempts, startedMs, row: rows - 1 };
  }

  /** BullMQ has stored the result. */
  completed(job: StoredJob): void {
    const end = this.#ends.get(job);
    const data = dataOf(job);
    if (end === undefined || data.sync) return;
    this.#options.onKeptEnd?.(inOrder({ ...end, finishedMs: job.finishedOn ?? Date.now() }));
    this.#trim(job, data);
  }

  /** BullMQ has stored the error. */
  failed(job: StoredJob, { message }: Error): void {
    const error = errorOf(message);
    if (message.startsWith('job stalled')) this.givenUp += 1;
    let data: JobData;
    try {
      data = dataOf(job);
    } catch {
      // Data of another version has no owner who could ask for the job.
      return;
    }
    // The server that cancelled the job has counted it.
    if (data.sync || error.code === 'cancelled') return;
    const { id, kind, status, createdMs, startedMs, finishedMs, attempts } = recordOf(job, data);
    const at = finishedMs ?? job.finishedOn ?? Date.now();
    const ended = status === 'cancelled' ? status : 'failed';
    const about = { id, kind, status: ended, createdMs, startedMs, attempts } as const;
    this.#options.onKeptEnd?.(inOrder({ ...about, finishedMs: at, result: null, error }));
    this.#trim(job, data);
  }

  #trim(job: StoredJob, data: JobData): void {
    if (Buffer.byteLength(JSON.stringify(data.request)) > LARGE_REQUEST)
      job.updateData({ ...data, request: null }).catch(() => undefined);
  }

  /** Late watchers of a kept job read its log. */
  #report(job: StoredJob, { sync }: JobData, report: Progress): Promise<void> {
    return persist(async () => {
      const log = sync || report.deltas.length === 0 ? undefined : job.log(JSON.stringify(report));
      await Promise.all([log, job.updateProgress(report)]);
    });
  }
}

/** Repeats a write while Redis refuses it for lack of memory or room on its disk. */
async function persist<T>(write: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await write();
    } catch (error) {
      if (!/^(OOM|LOADING|READONLY|BUSY|MISCONF)/.test((error as Error).message)) throw error;
      await later(AGAIN_MS);
    }
  }
}
