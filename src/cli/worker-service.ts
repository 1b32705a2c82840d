/** What `sida worker` serves over HTTP: its health and its metrics, and of its queue what a server would tell. */
import { KeyRing } from '../access/key-ring.js';
import type { ServeOptions } from '../config/options.js';
import type { EngineHandle } from '../engine/engine-handle.js';
import type { Logger } from '../observability/logger.js';
import type { KeptEnd } from '../queue/job-queue.js';
import { recordKeptJob } from '../queue/queue-metrics.js';
import type { QueueWorker } from '../queue/redis/queue-worker.js';
import type { RedisQueue } from '../queue/redis/redis-queue.js';
import { type RunningServer, startServer } from '../server/http-server.js';
import { SERVICE_ROUTES } from '../server/routes/index.js';
import { serverMetrics } from '../server/server-metrics.js';
import { sharedQueue } from './backend.js';
import { listening } from './listening.js';

export interface Watched {
  engine: EngineHandle;
  logger: Logger;
  /** Undefined before the engine was ready. */
  worker: () => QueueWorker | undefined;
}

export class WorkerService {
  readonly #queue: RedisQueue;
  readonly #server: RunningServer;

  private constructor(queue: RedisQueue, server: RunningServer) {
    this.#queue = queue;
    this.#server = server;
  }

  static async start(
    options: ServeOptions & { redis: string },
    { engine, logger, worker }: Watched,
  ): Promise<WorkerService> {
    const { host, metricsPort: port = 0 } = options;
    const keys = new KeyRing(options);
    const onKeptEnd = (end: KeptEnd) => recordKeptJob(end, metrics, logger);
    const queue = sharedQueue(options, options.redis, { logger, onKeptEnd }, () => worker()?.queueName);
    const metrics = serverMetrics(engine, queue);
    const serving = { engine, queue, options: { ...options, port }, keys, logger, metrics };
    const server = await listening(host, port, '--metrics-port', () =>
      startServer(serving, SERVICE_ROUTES),
    ).catch(async (error: unknown) => {
      await queue.close();
      throw error;
    });
    return new WorkerService(queue, server);
  }

  get url(): string {
    return `${this.#server.url}/metrics`;
  }

  keptEnded(end: KeptEnd): void {
    this.#queue.keptEnded(end);
  }

  /** It is still scraped, and not ready. */
  drain(): void {
    this.#server.refuse();
  }

  async close(): Promise<void> {
    await this.#queue.close();
    await this.#server.close();
  }
}
