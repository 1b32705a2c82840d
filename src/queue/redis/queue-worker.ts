/**
 * Claims jobs of a queue in Redis and runs them in this process's engine. The event loop here renews leases and
 * never computes: the engine is another process. A run that lost its lease is dropped, and its result does not
 * count.
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
import { logFaults, subscriberClient, workerClient } from './redis-client.js';
import { type LedgerLimits, RedisLedger } from './redis-ledger.js';

interface QueueWorkerOptions extends LedgerLimits {
  url: string;
  queueName: string;
  /** Jobs in the engine at a time; the engine batches them. */
  concurrency: number;
  /** A worker that was silent for so long loses its jobs to others. */
  leaseMs: number;
  /** Between looks for jobs of silent workers. */
  lookMs: number;
  /** Called for kept jobs that this worker ended. */
  onKeptEnd?: (end: KeptEnd) => void;
}

/** Longest time between a worker's signs of life. */
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
  #leaving = false;
  #closed = false;
  #closing: Promise<boolean> | undefined;

  /** Starts at once. `engine` has been ready. */
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
      // Servers need not wait for the next beat.
      void this.#beat();
    });
    // Leases are renewed three times before they end.
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
   * Takes no more jobs, gives running ones up to `drainMs`, and hands back the rest. Resolves true when none was
   * left.
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
    // Without Redis no job can be handed back. Other workers run them once their leases have ended.
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
      // Jobs may have come before the subscription.
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
      const now = await this.#runs.beat(serving);
      if (serving) {
        const { queueName } = this.#options;
        await publishModel(this.#client, { queueName, seenMs: now, model: this.#model });
      }
      // Deadlines hold without a server too.
      for (const end of (await this.#ledger.status()).expired) this.#options.onKeptEnd?.(end);
    } catch (error) {
      if (!this.#closed) this.#tell(error as Error);
    } finally {
      this.#beating = false;
    }
  }
}
