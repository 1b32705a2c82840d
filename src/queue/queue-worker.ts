/**
 * Takes jobs of a queue in Redis and runs them in this process's engine. The loop here renews locks and never computes: the
 * engine is another process. What counts is the ledger's token, not BullMQ's lock: a run that lost its token is dropped.
 */
import { randomUUID } from 'node:crypto';
import { type Job, type Queue, WaitingError, Worker } from 'bullmq';
import type { Redis } from 'ioredis';
import type { EngineHandle, EngineState } from '../engine/engine-handle.js';
import type { ModelInfo } from '../engine/messages.js';
import type { Logger } from '../observability/logger.js';
import type { Placement } from '../placement/choose-worker.js';
import { bullmqQueue, idOf } from './bullmq-entry.js';
import type { KeptEnd } from './job-queue.js';
import { JobRuns } from './job-runs.js';
import { stoppedWhileRunning } from './passed-entries.js';
import { later } from './persist.js';
import type { PlacementStats } from './placement-stats.js';
import { publishModel } from './published-models.js';
import { KEY_PREFIX } from './queue-name.js';
import { logFaults, subscriberClient, workerClient } from './redis-client.js';
import { type LedgerLimits, RedisLedger } from './redis-ledger.js';
import { sweep } from './sweep.js';
import { WorkerPlacement } from './worker-placement.js';

export interface QueueWorkerOptions extends LedgerLimits {
  url: string;
  queueName: string;
  /** Jobs in the engine at a time; the engine batches them. */
  concurrency: number;
  lockDurationMs: number;
  stalledIntervalMs: number;
  maxStalledCount: number;
  placement: Exclude<Placement, 'auto'>;
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
  readonly #placement: WorkerPlacement | undefined;
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
    const [bullmq, worker] = [this.#bullmq, this.#worker];
    const parts = {
      id: this.id,
      engine,
      model,
      client: this.#client,
      ledger,
      runs: this.#runs,
      bullmq,
      worker,
    };
    if (options.placement === 'experts')
      this.#placement = new WorkerPlacement({ ...parts, concurrency, lockDurationMs, logger });
    this.#subscribe();
    this.#offState = engine.onState((state) => this.#onEngineState(state));
    this.#timer = setInterval(() => void this.#beat(), ALIVE_MS);
    this.#client.on('ready', () => void this.#beat());
  }

  get queueName(): string {
    return this.#options.queueName;
  }

  /** Undefined where jobs run wherever BullMQ gives them. */
  get placement(): PlacementStats | undefined {
    return this.#placement?.stats;
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
    const closing = Promise.all([this.#worker.close(), this.#placement?.leave()]);
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
    this.#placement?.close();
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
    // Nothing was moved: the error only makes BullMQ let go of a job whose lock is another worker's.
    if (await this.#placement?.passOn(run, job.token!)) throw new WaitingError();
    const after = await this.#runs.finish(run);
    if (after === 'elsewhere') return this.#putBack(job);
    if (after === 'again') throw stoppedWhileRunning();
  }

  /** Back into the queue, for another worker, and without counting as a failure. */
  async #putBack(job: Job): Promise<never> {
    await job.moveToWait(job.token!);
    throw new WaitingError();
  }

  #subscribe(): void {
    const { stops } = this.#ledger;
    const channels = [stops, ...(this.#placement === undefined ? [] : [this.#placement.channel])];
    this.#subscriber.on('ready', () => this.#subscriber.subscribe(...channels).catch(() => undefined));
    this.#subscriber.on('message', (channel: string, message: string) => {
      if (channel === stops) this.#runs.stop(message);
      else this.#placement?.onMessage(message);
    });
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
