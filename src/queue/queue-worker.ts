/**
 * Takes jobs of a queue in Redis and runs them in this process's engine. The loop here renews locks and never computes: the
 * engine is another process. What counts is the ledger's token, not BullMQ's lock: a run that lost its token is dropped.
 */
import { randomUUID } from 'node:crypto';
import { type Job, type Queue, WaitingError, Worker } from 'bullmq';
import type { Redis } from 'ioredis';
import type { EngineHandle, EngineState } from '../engine/engine-handle.js';
import type { Logger } from '../observability/logger.js';
import type { ModelInfo } from '../protocol/engine-messages.js';
import { bullmqQueue, idOf } from './bullmq-entry.js';
import type { KeptEnd } from './job-queue.js';
import { JobRuns } from './job-runs.js';
import { later } from './persist.js';
import { publishModel } from './published-models.js';
import { KEY_PREFIX } from './queue-name.js';
import { logFaults, subscriberClient, workerClient } from './redis-client.js';
import { type LedgerLimits, RedisLedger } from './redis-ledger.js';
import { sweep } from './sweep.js';

export interface QueueWorkerOptions extends LedgerLimits {
  url: string;
  queueName: string;
  /** Jobs in the engine at a time; the engine batches them. */
  concurrency: number;
  lockDurationMs: number;
  stalledIntervalMs: number;
  maxStalledCount: number;
  /** Told of kept jobs that this worker ended. */
  onKeptEnd?: (end: KeptEnd) => void;
}

/** Between a worker's signs of life, looks for jobs that ended elsewhere, and sweeps. */
const ALIVE_MS = 2_000;

export class QueueWorker {
  readonly id = randomUUID();
  readonly #engine: EngineHandle;
  readonly #model: ModelInfo;
  readonly #options: QueueWorkerOptions;
  readonly #logger: Logger;
  readonly #tell: (error: Error) => void;
  readonly #client: Redis;
  readonly #subscriber: Redis;
  readonly #ledger: RedisLedger;
  readonly #bullmq: Queue;
  readonly #worker: Worker;
  readonly #runs: JobRuns;
  readonly #timer: NodeJS.Timeout;
  readonly #offState: () => void;
  #beating = false;
  #leaving = false;
  #closed = false;
  #closing: Promise<boolean> | undefined;

  /** Starts at once. `engine` has been ready. */
  constructor(engine: EngineHandle, model: ModelInfo, options: QueueWorkerOptions, logger: Logger) {
    const { url, queueName, concurrency, lockDurationMs, stalledIntervalMs, maxStalledCount, onKeptEnd } =
      options;
    this.#engine = engine;
    this.#model = model;
    this.#options = options;
    this.#logger = logger;
    this.#tell = logFaults(logger);
    this.#client = workerClient(url).on('error', this.#tell);
    this.#subscriber = subscriberClient(url).on('error', () => undefined);
    const ledger = new RedisLedger(this.#client, queueName, options);
    this.#ledger = ledger;
    this.#runs = new JobRuns({ engine, ledger, logger, keptBytes: options.keptBytes, onKeptEnd });
    this.#bullmq = bullmqQueue(queueName, this.#client, options.attempts);
    this.#worker = new Worker(queueName, (job) => this.#process(job), {
      prefix: KEY_PREFIX,
      connection: this.#client,
      concurrency,
      lockDuration: lockDurationMs,
      stalledInterval: stalledIntervalMs,
      maxStalledCount,
      // What BullMQ waits after a lost connection: by default longer than anyone should wait for it.
      runRetryDelay: 1_000,
    });
    this.#worker.on('error', this.#tell);
    this.#subscribe();
    this.#offState = engine.onState((state) => this.#onEngineState(state));
    this.#timer = setInterval(() => void this.#beat(), ALIVE_MS);
    this.#client.on('ready', () => void this.#beat());
  }

  get queueName(): string {
    return this.#options.queueName;
  }

  /** Takes no more jobs, gives running ones up to `drainMs` and hands back the rest. Resolves true when there was none. */
  close(drainMs: number): Promise<boolean> {
    this.#closing ??= this.#close(drainMs);
    return this.#closing;
  }

  async #close(drainMs: number): Promise<boolean> {
    this.#leaving = true;
    this.#runs.leave();
    let finished = true;
    const closing = this.#worker.close();
    const timer = setTimeout(() => {
      finished = this.#runs.all.length === 0;
      this.#runs.handBack();
    }, drainMs);
    // Without Redis nothing can be told; what is left is run elsewhere once its lock has run out.
    const away = this.#client.status !== 'ready' && this.#runs.all.length === 0;
    await Promise.race([closing, later((away ? 0 : drainMs) + 2_000)]);
    clearTimeout(timer);
    this.#closed = true;
    this.#runs.close();
    clearInterval(this.#timer);
    this.#offState();
    await Promise.race([this.#ledger.gone(this.id).catch(() => undefined), later(500)]);
    this.#client.disconnect();
    this.#subscriber.disconnect();
    return finished;
  }

  async #process(job: Job): Promise<void> {
    if (!(await this.#runs.engineReady())) return this.#putBack(job);
    const run = await this.#runs.begin(idOf(job.id!));
    if (run === undefined) return;
    const after = await this.#runs.finish(run);
    if (after === 'elsewhere') return this.#putBack(job);
    if (after === 'again') throw new Error('The engine stopped while it ran this job');
  }

  /** Back into the queue, for another worker, and without counting as a failure. */
  async #putBack(job: Job): Promise<never> {
    await job.moveToWait(job.token!);
    throw new WaitingError();
  }

  #subscribe(): void {
    const { stops } = this.#ledger;
    this.#subscriber.on('ready', () => this.#subscriber.subscribe(stops).catch(() => undefined));
    this.#subscriber.on('message', (_channel: string, id: string) => this.#runs.stop(id));
  }

  #onEngineState({ phase }: EngineState): void {
    if (this.#leaving) return;
    // Jobs that wait for this engine would wait less for another one.
    if (phase === 'ready') void this.#worker.resume();
    else void this.#worker.pause(true);
  }

  async #beat(): Promise<void> {
    if (this.#beating || this.#client.status !== 'ready') return;
    this.#beating = true;
    try {
      if (this.#engine.state.phase === 'ready' && !this.#leaving) {
        const now = await this.#ledger.alive(this.id);
        const { queueName } = this.#options;
        await publishModel(this.#client, { queueName, seenMs: now, model: this.#model });
      }
      // Deadlines hold without any server.
      for (const end of (await this.#ledger.status()).expired) this.#options.onKeptEnd?.(end);
      await this.#runs.check();
      if (!this.#leaving) await sweep(this.#ledger, this.#bullmq, this.#logger);
    } catch (error) {
      if (!this.#closed) this.#tell(error as Error);
    } finally {
      this.#beating = false;
    }
  }
}
