/**
 * Claims jobs from a queue in Redis and runs them in this process's engine. The engine is a separate process, so this
 * event loop never computes and can always renew leases. A run that has lost its lease is dropped, and its result
 * does not count.
 */
import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { EngineHandle } from '../../engine/engine-handle.js';
import type { Logger } from '../../observability/logger.js';
import type { ModelInfo } from '../../protocol/engine-messages.js';
import type { KeptEnd } from '../job-queue.js';
import { JobClaims } from './job-claims.js';
import { JobRuns } from './job-runs.js';
import { later } from './persist.js';
import { publishModel } from './published-models.js';
import type { AnswerSettings } from './queue-name.js';
import { logFaults, subscriberClient, workerClient } from './redis-client.js';
import { type LedgerLimits, RedisLedger } from './redis-ledger.js';

interface QueueWorkerOptions extends LedgerLimits {
  url: string;
  queueName: string;
  /** Published beside the model, so that a server can say how workers differ. */
  settings: AnswerSettings;
  /** Most jobs in the engine at a time; the engine batches them. */
  concurrency: number;
  /** A worker that is silent for this long loses its jobs to other workers. */
  leaseMs: number;
  /** Milliseconds between periodic claims, which find the jobs of silent workers. */
  lookMs: number;
  /** Called for each kept job that this worker ends. */
  onKeptEnd?: (end: KeptEnd) => void;
}

/** Longest time between two heartbeats of a worker. */
const ALIVE_MS = 2_000;

export class QueueWorker {
  readonly id = randomUUID();
  readonly #engine: EngineHandle;
  readonly #model: ModelInfo;
  readonly #options: QueueWorkerOptions;
  readonly #tell: (error: Error) => void;
  readonly #client: Redis;
  readonly #subscriber: Redis;
  readonly #ledger: RedisLedger;
  readonly #runs: JobRuns;
  readonly #claims: JobClaims;
  readonly #timer: NodeJS.Timeout;
  readonly #offState: () => void;
  #beating = false;
  #reporting = false;
  #leaving = false;
  #closed = false;
  #closing: Promise<boolean> | undefined;

  /** The worker starts at once. `engine` must have been ready before, since `model` comes from it. */
  constructor(engine: EngineHandle, model: ModelInfo, options: QueueWorkerOptions, logger: Logger) {
    const { url, queueName, concurrency, leaseMs, lookMs, keptBytes, onKeptEnd } = options;
    this.#engine = engine;
    this.#model = model;
    this.#options = options;
    this.#tell = logFaults(logger);
    this.#client = workerClient(url).on('error', this.#tell);
    this.#subscriber = subscriberClient(url).on('error', () => undefined);
    const ledger = new RedisLedger(this.#client, queueName, options);
    this.#ledger = ledger;
    this.#runs = new JobRuns({ engine, ledger, logger, worker: this.id, keptBytes, leaseMs, onKeptEnd });
    this.#claims = new JobClaims({
      runs: this.#runs,
      concurrency,
      everyMs: lookMs,
      ready: () => engine.state.phase === 'ready',
      onError: this.#tell,
    });
    this.#subscribe();
    this.#offState = engine.onState(({ phase }) => {
      if (phase === 'ready') this.#claims.look();
      // A heartbeat reports the new state to servers at once.
      void this.#beat();
    });
    // A lease is renewed at least three times before it would end.
    this.#timer = setInterval(() => void this.#beat(), Math.min(ALIVE_MS, leaseMs / 4));
    this.#client.on('ready', () => {
      void this.#beat();
      this.#claims.look();
    });
  }

  get queueName(): string {
    return this.#options.queueName;
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
    this.#runs.leave();
    let finished = true;
    const closing = this.#claims.leave();
    const timer = setTimeout(() => {
      finished = this.#runs.all.length === 0;
      this.#runs.handBack();
    }, drainMs);
    // Without Redis no job can be handed back. Other workers run the jobs once the leases have ended.
    const away = this.#client.status !== 'ready' && this.#runs.all.length === 0;
    await Promise.race([closing, later((away ? 0 : drainMs) + 2_000)]);
    clearTimeout(timer);
    this.#closed = true;
    this.#runs.close();
    clearInterval(this.#timer);
    this.#offState();
    await Promise.race([this.#ledger.leave(this.id).catch(() => undefined), later(500)]);
    this.#client.disconnect();
    this.#subscriber.disconnect();
    return finished;
  }

  #subscribe(): void {
    const { stops } = this.#ledger;
    const work = this.#ledger.workOf(this.id);
    this.#subscriber.on('ready', () => {
      // Jobs may have arrived before the subscription.
      const look = () => this.#claims.look();
      this.#subscriber.subscribe(stops, work).then(look, () => undefined);
    });
    this.#subscriber.on('message', (channel: string, id: string) => {
      if (channel === work) this.#claims.look();
      else this.#runs.stop(id);
    });
  }

  async #beat(): Promise<void> {
    if (this.#beating || this.#client.status !== 'ready') return;
    this.#beating = true;
    try {
      const serving = this.#engine.state.phase === 'ready' && !this.#leaving;
      const seenMs = await this.#runs.beat(serving);
      // The next heartbeat must not wait for this, since it renews leases.
      void this.#report(serving ? seenMs : undefined);
    } catch (error) {
      if (!this.#closed) this.#tell(error as Error);
    } finally {
      this.#beating = false;
    }
  }

  /**
   * Publishes the model while the worker serves, and ends jobs that are past their deadline, also without a server.
   */
  async #report(seenMs: number | undefined): Promise<void> {
    if (this.#reporting) return;
    this.#reporting = true;
    try {
      const { queueName, settings, onKeptEnd } = this.#options;
      if (seenMs !== undefined) {
        await publishModel(this.#client, { queueName, seenMs, model: this.#model, settings });
      }
      for (const end of (await this.#ledger.status()).expired) onKeptEnd?.(end);
    } catch (error) {
      if (!this.#closed) this.#tell(error as Error);
    } finally {
      this.#reporting = false;
    }
  }
}
