/** Runs the jobs that BullMQ gives to a worker, and reports their deltas, ends and crashes to Redis. */
import { WaitingError } from 'bullmq';
import type { EngineHandle } from '../../engine/engine-handle.js';
import { SidaError } from '../../errors.js';
import type { Logger } from '../../observability/logger.js';
import type { JobResult } from '../../protocol/engine-messages.js';
import type { JobOutcome, KeptEnd } from '../job-queue.js';
import type { JobScheduler } from '../memory/job-scheduler.js';
import { answerTooLarge, cancelled, streamBroken } from '../refusals.js';
import { DeltaWriter } from './deltas.js';
import { EVENTS_MS, INLINE_BYTES } from './queue-link.js';
import { later } from './redis-client.js';
import {
  dataOf,
  deadlineError,
  failure,
  type JobData,
  type Progress,
  progressOf,
  type Returned,
  recordOf,
  requestOf,
  resultText,
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
  /** The job's data in Redis as JSON; null when it is gone. */
  readData: (id: string) => Promise<string | null>;
}

/** A larger request of an ended job is removed, since whoever reads the job would read it, too. */
const LARGE_REQUEST = 4_096;
/** Milliseconds between tries of a write that Redis refused for a while. */
const AGAIN_MS = 500;
/** Longer than a server takes to remove the mark of a cancelled job that had already ended. */
const UNMARK_MS = 1_500;

export class JobRuns {
  readonly #options: RunsOptions;
  /** Ids of stopped jobs, with the times of the stops: a stop may come before its job. */
  readonly #stopped = new Map<string, number>();
  /** Results of the jobs whose runs have ended. */
  readonly #results = new WeakMap<StoredJob, JobResult>();
  /** Hands back every job from now on. */
  leaving = false;
  /** Resolves when all ends so far are reported. */
  reported: Promise<unknown> = Promise.resolve();

  constructor(options: RunsOptions) {
    this.#options = options;
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
      if (data.stopped !== undefined || this.#stopped.has(job.id!)) throw cancelled();
      if (Date.now() > data.deadlineAt) throw deadlineError(job, data);
      // The client has seen a part of another run's answer.
      if (data.sync && progressOf(job.progress) !== undefined) throw streamBroken();
      if (this.leaving) throw new WaitingError();
      const returned = await this.#run(job, data, signal);
      if (signal.reason !== 'lost') return returned;
      throw new WaitingError();
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
    const request = requestOf(data);
    const before = Math.max(job.attemptsStarted - 1, progressOf(job.progress)?.run ?? 0);
    let about: Omit<Progress, 'seq' | 'deltas'> | undefined;
    let writer: DeltaWriter | undefined;
    let end: (error: SidaError) => void = () => undefined;
    // Clients see the runs of kept jobs only.
    const begin = (attempt: number, queued = false) => {
      const own = { turn: job.attemptsStarted, run: before + attempt, startedMs: Date.now(), queued };
      about = own;
      writer = new DeltaWriter(
        (seq, deltas) => this.#report(job, data, { ...own, seq, deltas }),
        (error) => end(error),
      );
      if (!data.sync) this.#report(job, data, { ...own, seq: 0, deltas: [] }).catch(() => undefined);
    };
    const outcome = await new Promise<JobOutcome | SidaError>((onEnd) => {
      end = scheduler.add({
        // The engine may still have an earlier run of the job.
        id: `${job.attemptsStarted}/${job.id}`,
        owner: data.owner,
        request,
        deadlineMs: data.deadlineAt - Date.now(),
        ...(data.streams && { onDelta: (delta) => writer?.add(delta) }),
        repeatsDeltas: !data.sync,
        onRun: begin,
        onRequeue: (attempts) => begin(attempts, true),
        onEnd,
      });
      signal.addEventListener('abort', () => end(cancelled()), { once: true });
      if (signal.aborted) end(cancelled());
    });
    const { phase } = engine.state;
    if (outcome instanceof SidaError) {
      const gone = outcome.code === 'not_ready' && (phase === 'failed' || phase === 'closed');
      if (outcome.code === 'shutting_down' || gone) {
        if (about !== undefined) begin(about.run - before, true);
        throw new WaitingError();
      }
      throw outcome.code === 'deadline_exceeded' ? deadlineError(job, data) : outcome;
    }
    await writer?.written();
    return this.#returned(job, data, outcome.result, about!);
  }

  async #returned(
    job: StoredJob,
    { sync }: JobData,
    result: JobResult,
    { run: attempts, startedMs }: Pick<Progress, 'run' | 'startedMs'>,
  ): Promise<Returned> {
    const text = resultText(result);
    const bytes = Buffer.byteLength(text);
    const { answerBytes } = this.#options;
    if (!sync && bytes > answerBytes) throw answerTooLarge(bytes, answerBytes);
    this.#results.set(job, result);
    if (bytes <= INLINE_BYTES) return { attempts, startedMs, result };
    const rows = await persist(() => job.log(text));
    // The client's server reads the answer, and removes the job.
    if (sync) job.opts.removeOnComplete = false;
    return { attempts, startedMs, row: rows - 1 };
  }

  /** BullMQ has stored the end of the job. */
  ended(job: StoredJob): void {
    // Data of another version has no owner who could ask for the job.
    const told = this.#tell(job).catch(() => undefined);
    this.reported = Promise.all([this.reported, told]).then(() => undefined);
  }

  async #tell(job: StoredJob): Promise<void> {
    const before = dataOf(job);
    // The server that cancelled the job has counted it.
    if (before.sync || recordOf(job, before).status === 'cancelled') return;
    let data = await this.#dataNow(job);
    if (data.stopped !== undefined) {
      // A server that marked the job after its end removes the mark.
      await later(UNMARK_MS);
      data = await this.#dataNow(job);
    }
    const record = recordOf(job, data);
    if (record.status === 'cancelled') return;
    this.#options.onKeptEnd?.({ ...record, result: this.#results.get(job) ?? null });
    if (Buffer.byteLength(JSON.stringify(data.request)) > LARGE_REQUEST)
      await job.updateData({ ...data, request: null });
  }

  /** The job may have been cancelled since this worker took it. Without Redis, its data at that time. */
  async #dataNow(job: StoredJob): Promise<JobData> {
    const text = await this.#options.readData(job.id!).catch(() => null);
    return dataOf(text === null ? job : { data: JSON.parse(text) });
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
