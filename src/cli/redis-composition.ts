/** The parts of servers and workers that share a queue in Redis. A server without Redis does not load them. */

import { KeyRing } from '../access/key-ring.js';
import { ENGINE_OPTION_NAMES, engineConfig } from '../config/engine-config.js';
import type { ServeOptions } from '../config/options.js';
import { EngineClient } from '../engine/engine-client.js';
import type { EngineHandle } from '../engine/engine-handle.js';
import type { Logger } from '../observability/logger.js';
import { recordKeptJob } from '../queue/queue-metrics.js';
import { type AnswerSettings, queueNameOf } from '../queue/redis/queue-name.js';
import { QueueWorker } from '../queue/redis/queue-worker.js';
import { logFaults } from '../queue/redis/redis-client.js';
import { RedisQueue, type RedisQueueOptions } from '../queue/redis/redis-queue.js';
import { checkRedisSettings, type RedisRefused } from '../queue/redis/redis-settings.js';
import { RemoteEngine } from '../queue/redis/remote-engine.js';
import { telemetryOf } from '../queue/redis/tracing.js';
import { redisLimiters } from '../server/admission/redis-limiter.js';
import type { ServedModel } from '../server/context.js';
import { type RunningServer, startServer } from '../server/http-server.js';
import type { Route } from '../server/route.js';
import { SERVICE_ROUTES } from '../server/routes/index.js';
import { serverMetrics } from '../server/server-metrics.js';
import { UpstreamEngine } from '../upstream/upstream-engine.js';
import { type Backend, engineTokens, listening, type OnKeptEnd } from './backend.js';

/** Times that workers look for jobs of dead workers within the time after which a silent worker counts as dead. */
const LOOKS_A_LOCK = 6;

export const WORKER_OPTIONS = [
  ...ENGINE_OPTION_NAMES,
  'redis',
  'upstream',
  'upstreamKey',
  'concurrency',
  'attempts',
  'lockDuration',
  'tracing',
  'drain',
  'logLevel',
  'logFormat',
  'metricsPort',
  'host',
  'allowedHosts',
  'apiKey',
  'apiKeys',
] as const satisfies (keyof ServeOptions)[];

export type WorkerOptions = Pick<ServeOptions, (typeof WORKER_OPTIONS)[number]>;

type SharedRedis = Pick<RedisQueueOptions, 'url' | 'telemetry'>;

/** What all models of a server share. */
export async function sharedRedis(url: string, options: ServeOptions, logger: Logger) {
  const redis = { url, telemetry: await telemetryOf(options) };
  const { refused, end } = checkRedisSettings(url, logger);
  const perMinute = { tokens: options.rateLimit, bytes: options.rateLimitBytes };
  const limits = redisLimiters(url, perMinute, logFaults(logger));
  return {
    refused,
    limiters: limits?.limiters,
    backend: (own: ServeOptions, onKeptEnd: OnKeptEnd) =>
      own.worker === 'none'
        ? backendOfWorkers(own, redis, logger, onKeptEnd)
        : backendInRedis(own, redis, logger, onKeptEnd),
    end,
    close: () => limits?.close(),
  };
}

/** Takes requests in this process and leaves the jobs to engines of other processes. */
function backendOfWorkers(
  options: ServeOptions,
  redis: SharedRedis,
  logger: Logger,
  onKeptEnd: OnKeptEnd,
): Backend {
  const engine = new RemoteEngine(redis.url, options);
  const queue = producer(options, redis, logger, onKeptEnd, {
    queueName: () => engine.queueName,
    routing: () => engine.model?.routing,
    unnamed: () => engine.state.detail,
  });
  return {
    engine,
    queue,
    queueBound: options.queueBound,
    async close() {
      await queue.close();
      await engine.close();
    },
  };
}

/** Takes requests in this process and runs jobs of the shared queue, including those of other servers. */
function backendInRedis(
  options: ServeOptions,
  redis: SharedRedis,
  logger: Logger,
  onKeptEnd: OnKeptEnd,
): Backend {
  const engine = new EngineClient(engineConfig(options));
  const worker = workerWhenReady(options, redis, engine, logger, (end) => queue.keptEnded(end));
  const { routing } = options;
  const queue = producer(options, redis, logger, onKeptEnd, {
    queueName: () => worker.queueName,
    workerStats: () => worker.stats,
    routing: () => routing,
  });
  return {
    engine,
    queue,
    queueBound: options.queueBound,
    async close(drainMs) {
      await worker.close(drainMs);
      await queue.close();
      await engine.close(0);
    },
  };
}

interface WorkerParts {
  engine: EngineHandle;
  /** Keys of the metrics and health routes; undefined without --metrics-port. */
  keys: KeyRing | undefined;
  /** Base URL of the metrics and health routes. Undefined without --metrics-port. */
  url: string | undefined;
  /** See RedisCheck. */
  refused: Promise<RedisRefused>;
  /** Makes `/health/ready` answer 503 from now on. */
  refuse(): void;
  close(drainMs: number): Promise<void>;
}

/**
 * Builds the parts of `sida worker`: an engine that runs the jobs of servers elsewhere. `serving` holds the options
 * of the worker's own HTTP server. It is undefined for a worker without one.
 */
export async function composeWorker(
  options: WorkerOptions,
  url: string,
  serving: ServeOptions | undefined,
  logger: Logger,
): Promise<WorkerParts> {
  const redis = { url, telemetry: await telemetryOf(options) };
  const { upstream, upstreamKey: key, model, alias } = options;
  const engine =
    upstream === undefined
      ? new EngineClient(engineConfig(options))
      : new UpstreamEngine({ url: upstream, model, alias, key });
  const worker = workerWhenReady(options, redis, engine, logger, (end) => onKeptEnd(end));
  const metered = serving && (await meteredQueue(serving, redis, { engine, logger }, worker));
  const onKeptEnd: OnKeptEnd = (end) => {
    if (metered === undefined) recordKeptJob(end, undefined, logger);
    else metered.queue.keptEnded(end);
  };
  const checked = checkRedisSettings(url, logger);
  return {
    engine,
    keys: metered?.keys,
    url: metered && `${metered.server.url}/metrics`,
    refused: checked.refused,
    refuse() {
      checked.end();
      metered?.server.refuse();
    },
    async close(drainMs) {
      await worker.close(drainMs);
      await metered?.queue.close();
      await metered?.server.close();
      await engine.close(0);
    },
  };
}

/** Starts a worker's HTTP server, which serves the worker's health, its metrics, and the metrics of the queue. */
async function meteredQueue(
  options: ServeOptions,
  redis: SharedRedis,
  { engine, logger }: { engine: EngineHandle; logger: Logger },
  worker: WaitingWorker,
): Promise<{ keys: KeyRing; queue: RedisQueue; server: RunningServer }> {
  const { host, metricsPort: port = 0 } = options;
  const keys = new KeyRing(options);
  const queue = producer(options, redis, logger, (end) => recordKeptJob(end, metrics, logger), {
    queueName: () => worker.queueName,
    workerStats: () => worker.stats,
  });
  const model = { name: undefined, engine, queue };
  const [metrics] = serverMetrics([model]);
  const served: ServedModel = { ...model, queueBound: options.queueBound, options, metrics };
  const dependencies = { models: [served] as const, options: { ...options, port }, keys, logger, metrics };
  const routes: readonly Route[] = SERVICE_ROUTES;
  try {
    return {
      keys,
      queue,
      server: await listening(host, port, '--metrics-port', () => startServer(dependencies, routes)),
    };
  } catch (error) {
    await queue.close();
    throw error;
  }
}

/** The producers' side of a shared queue. */
function producer(
  options: ServeOptions,
  redis: SharedRedis,
  logger: Logger,
  onKeptEnd: OnKeptEnd,
  model: Pick<RedisQueueOptions, 'queueName' | 'workerStats' | 'routing' | 'unnamed'>,
): RedisQueue {
  return new RedisQueue(
    {
      ...redis,
      bound: options.queueBound,
      deadlineMs: options.deadline,
      keptDeadlineMs: options.jobDeadline,
      keptMs: Math.round(options.jobRetention),
      keptJobs: options.jobResults,
      onKeptEnd,
      ...model,
    },
    logFaults(logger),
  );
}

interface WaitingWorker {
  /** Undefined until the engine is ready for the first time. */
  readonly queueName: string | undefined;
  readonly stats: QueueWorker['stats'] | undefined;
  close(drainMs: number): Promise<void>;
}

/** Starts the worker when the engine is ready, because the name of the queue depends on the model. */
function workerWhenReady(
  options: WorkerOptions,
  redis: SharedRedis,
  engine: EngineHandle,
  logger: Logger,
  onKeptEnd: OnKeptEnd,
): WaitingWorker {
  let worker: QueueWorker | undefined;
  const { kv, device, routing, routingK, concurrency, attempts, lockDuration: lockMs } = options;
  const off = engine.onState(({ phase }) => {
    if (phase !== 'ready' || worker !== undefined) return;
    const model = engine.model!;
    const settings: AnswerSettings = { activations: model.activations, kv, device, routing, routingK };
    const queueName = queueNameOf(model, settings);
    const times = { lockMs, stalledMs: Math.ceil(lockMs / LOOKS_A_LOCK) };
    const limits = { concurrency, attempts, engineTokens: engineTokens(options, model) };
    worker = new QueueWorker(
      engine,
      model,
      { ...redis, queueName, settings, ...times, ...limits, onKeptEnd },
      logger,
    );
  });
  return {
    get queueName() {
      return worker?.queueName;
    },
    get stats() {
      return worker?.stats;
    },
    async close(drainMs) {
      off();
      await worker?.close(drainMs);
    },
  };
}
