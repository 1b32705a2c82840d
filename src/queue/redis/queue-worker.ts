/**
 * Takes jobs from a queue in Redis and runs them in this process's engine, as the queue in memory does: its scheduler
 * runs jobs again after a crash of the engine. The engine is a separate process, so this event loop never computes
 * and can always renew locks.
 */
import { randomUUID } from 'node:crypto';
import { QueueEvents, type QueueEventsListener, type Telemetry, Worker } from 'bullmq';
import type { Redis } from 'ioredis';
import type { EngineHandle } from '../../engine/engine-handle.js';
import type { Logger } from '../../observability/logger.js';
import type { ModelInfo } from '../../protocol/engine-messages.js';
import type { KeptEnd, QueueStats } from '../job-queue.js';
import { JobScheduler } from '../memory/job-scheduler.js';
import { ANSWER_BYTES } from '../refusals.js';
import { JobRuns } from './job-runs.js';
import { announce, retire } from './published-models.js';
import { EVENTS_MS, stopsOf } from './queue-link.js';
import { type AnswerSettings, KEY_PREFIX } from './queue-name.js';
import { later, logFaults, PATIENT, redisTime, SILENT_MS, workerClient } from './redis-client.js';
import type { Returned } from './stored-job.js';

interface QueueWorkerOptions {
  url: string;
  /** Receives spans of jobs. */
  telemetry?: Telemetry | undefined;
  queueName: string;
  /** Published beside the model, so that a server can say how workers differ. */
  settings: AnswerSettings;
  /** Most jobs in the engine at a time; the engine batches them. */
  concurrency: number;
  /** Input tokens in the engine at a time when several owners share it; see SchedulerOptions. */
  engineTokens?: number;
  /** Most runs of one job in this worker, and most workers that may be lost while they have it. */
  attempts: number;
  /** A worker that is silent for this long loses its jobs to other workers. */
  lockMs: number;
  /** Milliseconds between looks for the jobs of silent workers. */
  stalledMs: number;
  /** Most bytes of a kept answer. */
  answerBytes?: number;
  /** Called for each kept job that this worker ends. */
  onKeptEnd?: (end: KeptEnd) => void;
}

interface StopListener extends QueueEventsListener {
  stop: (event: { id: string }) => void;
}

/** Milliseconds between two announcements of a worker. */
const ALIVE_MS = 2_000;
/** A worker that Redis refuses takes no jobs for this long. */
const REST_MS = 1_000;
/** Results that BullMQ refuses with these codes come from runs that have lost their lock. */
const LATE_CODES = [-1, -2, -3, -6];

export class QueueWorker {
  readonly #id = randomUUID();
  readonly #engine: EngineHandle;
  readonly #model: ModelInfo;
  readonly #options: QueueWorkerOptions;
  readonly #logger: Logger;
  readonly #tell: (error: Error) => void;
  readonly #client: Redis;
  readonly #scheduler: JobScheduler;
  readonly #runs: JobRuns;
  readonly #timer: NodeJS.Timeout;
  readonly #offState: () => void;
  #worker: Worker<unknown, Returned, string> | undefined;
  #stops: QueueEvents | undefined;
  #fenced = 0;
  #givenUp = 0;
  #dropped = '';
  #announcing = false;
  #restsUntil = 0;
  #leaving = false;
  #closing: Promise<boolean> | undefined;

  /** The worker starts at once. `engine` must have been ready before, since `model` comes from it. */
  constructor(engine: EngineHandle, model: ModelInfo, options: QueueWorkerOptions, logger: Logger) {
    const { url, concurrency, attempts, answerBytes = ANSWER_BYTES, onKeptEnd } = options;
    this.#engine = engine;
    this.#model = model;
    this.#options = options;
    this.#logger = logger;
    this.#tell = logFaults(logger);
    this.#client = workerClient(url).on('error', this.#tell);
    const unlimited = Number.POSITIVE_INFINITY;
    const { engineTokens: tokens = unlimited } = options;
    const bounds = { bound: unlimited, boundBytes: unlimited };
    this.#scheduler = new JobScheduler(engine, { ...bounds, concurrency, tokens, attempts });
    const onLate = (reason: string) => this.#drop(reason);
    const scheduler = this.#scheduler;
    const readData = (id: string) => this.#client.hget(this.#worker!.toKey(id), 'data');
    this.#runs = new JobRuns({ engine, scheduler, logger, answerBytes, onKeptEnd, onLate, readData });
    this.#offState = engine.onState(() => {
      this.#adjust();
      // Servers learn the new state at once.
      void this.#announce();
    });
    this.#timer = setInterval(() => void this.#announce(), Math.min(ALIVE_MS, options.lockMs / 4));
    this.#client.on('ready', () => void this.#announce());
    this.#begin().catch((error) => this.#tell(error as Error));
  }

  get queueName(): string {
    return this.#options.queueName;
  }

  /** Totals of this worker since its start. */
  get stats(): Required<Pick<QueueStats, 'retried' | 'quarantined' | 'fenced'>> {
    const { retried, quarantined } = this.#scheduler.stats;
    return { retried, quarantined: quarantined + this.#givenUp, fenced: this.#fenced };
  }

  /**
   * Stops taking jobs, waits up to `drainMs` for the running ones, and hands back the rest. Resolves true when none
   * was handed back.
   */
  close(drainMs: number): Promise<boolean> {
    this.#closing ??= this.#close(drainMs);
    return this.#closing;
  }

  async #close(drainMs: number): Promise<boolean> {
    this.#leaving = true;
    this.#runs.leaving = true;
    this.#adjust();
    void this.#announce();
    const finished = await this.#scheduler.drain(drainMs);
    // Without Redis, other workers run the jobs once the locks have ended.
    await Promise.race([this.#worker?.close(), later(2_000)]);
    await Promise.race([this.#runs.reported, later(2_000)]);
    clearInterval(this.#timer);
    this.#offState();
    await Promise.race([this.#announce(), later(500)]);
    await Promise.race([this.#stops?.close().catch(() => undefined), later(500)]);
    this.#client.disconnect();
    return finished;
  }

  async #begin(): Promise<void> {
    const { url, queueName, concurrency, attempts, lockMs, stalledMs, telemetry } = this.#options;
    const nowMs = await redisTime(this.#client);
    if (this.#leaving) return;
    const common = { prefix: KEY_PREFIX, skipVersionCheck: true };
    this.#stops = new QueueEvents(stopsOf(queueName), {
      ...common,
      connection: { url, ...PATIENT },
      // A stop may come before its job does.
      lastEventId: `${nowMs - EVENTS_MS}-0`,
      blockingTimeout: 2_000,
    }).on('error', this.#tell);
    const worker = new Worker<unknown, Returned, string>(
      queueName,
      (job, token, signal) => this.#runs.run(job, token!, signal!),
      {
        ...common,
        connection: this.#client,
        concurrency,
        lockDuration: lockMs,
        stalledInterval: stalledMs,
        // The first start is no stall.
        maxStalledCount: attempts - 1,
        // BullMQ's watchdog opens a silent connection again a second later.
        drainDelay: 2,
        runRetryDelay: REST_MS,
        ...(telemetry && { telemetry }),
      },
    );
    this.#worker = worker;
    this.#stops.on<StopListener, 'stop'>('stop', ({ id }: { id: string }) => {
      this.#runs.remember(id);
      worker.cancelJob(id, 'stopped');
    });
    worker
      .on('error', (error) => this.#onError(error))
      .on('lockRenewalFailed', (ids) => this.#onLost(ids))
      .on('completed', (job) => this.#runs.ended(job))
      .on('failed', (job, { message }) => {
        if (message.startsWith('job stalled')) this.#givenUp += 1;
        if (job !== undefined) this.#runs.ended(job);
      });
    this.#adjust();
  }

  /** Takes jobs while the engine is ready and Redis accepts writes. */
  #adjust(): void {
    const worker = this.#worker;
    if (worker === undefined) return;
    const take = this.#engine.state.phase === 'ready' && !this.#leaving && Date.now() >= this.#restsUntil;
    if (take && worker.isPaused()) void worker.resume();
    else if (!take && !worker.isPaused()) void worker.pause(true);
  }

  #rest(): void {
    this.#restsUntil = Date.now() + REST_MS;
    this.#adjust();
    setTimeout(() => this.#adjust(), REST_MS + 1).unref();
  }

  #onError(error: Error): void {
    if (LATE_CODES.includes((error as Error & { code?: number }).code ?? 0)) this.#drop(error.message);
    // BullMQ reports lost locks also by `lockRenewalFailed`.
    else if (!error.message.startsWith('could not renew lock')) this.#tell(error);
    // An idle worker would ask again at once, without end.
    if (/^(OOM|MISCONF|LOADING)/.test(error.message)) this.#rest();
  }

  /** Other workers may have the jobs now. */
  #onLost(ids: string[]): void {
    // The lock of a job that has just ended cannot be renewed, either.
    const lost = ids.filter((id) => this.#worker!.cancelJob(id, 'lost'));
    // The dropped runs must end before this worker takes one of the jobs again.
    if (lost.length > 0) this.#rest();
  }

  /** BullMQ tells of each refused result twice: it then tries to fail the job. */
  #drop(reason: string): void {
    if (reason === this.#dropped) return;
    this.#dropped = reason;
    this.#fenced += 1;
    this.#logger.warn({ reason }, 'a late result was dropped: another run replaced this one');
  }

  /** Tells servers what the worker serves. A connection that does not answer is opened again. */
  async #announce(): Promise<void> {
    if (this.#announcing || this.#client.status !== 'ready') return;
    this.#announcing = true;
    const silent = setTimeout(() => this.#client.disconnect(true), SILENT_MS);
    try {
      const { queueName, settings } = this.#options;
      const serves = this.#engine.state.phase === 'ready' && !this.#leaving;
      if (serves) await announce(this.#client, this.#id, { queueName, model: this.#model, settings });
      else await retire(this.#client, this.#id, queueName);
    } catch (error) {
      if (!this.#leaving) this.#tell(error as Error);
    } finally {
      clearTimeout(silent);
      this.#announcing = false;
    }
  }
}
