/** The composition root: builds and connects the engine, queue, worker and HTTP server that the options ask for. */

import { KeyRing } from '../access/key-ring.js';
import { ENGINE_OPTION_NAMES, engineConfig } from '../config/engine-config.js';
import type { ServeOptions } from '../config/options.js';
import type { ServedModels } from '../config/served-models.js';
import type { EngineHandle } from '../engine/engine-handle.js';
import { EngineProcess } from '../engine/engine-process.js';
import { SidaError } from '../errors.js';
import type { Logger } from '../observability/logger.js';
import type { Metrics } from '../observability/metrics.js';
import { requestSpans } from '../observability/request-spans.js';
import type { ModelInfo } from '../protocol/engine-messages.js';
import type { KeptEnd } from '../queue/job-queue.js';
import { MemoryQueue } from '../queue/memory/memory-queue.js';
import { recordKeptJob } from '../queue/queue-metrics.js';
import { type AnswerSettings, queueNameOf } from '../queue/redis/queue-name.js';
import { QueueWorker } from '../queue/redis/queue-worker.js';
import { logFaults } from '../queue/redis/redis-client.js';
import { RedisQueue, type RedisQueueOptions } from '../queue/redis/redis-queue.js';
import { checkRedisSettings, type RedisRefused } from '../queue/redis/redis-settings.js';
import { RemoteEngine } from '../queue/redis/remote-engine.js';
import { telemetryOf } from '../queue/redis/tracing.js';
import { ANSWER_BYTES, QUEUE_BYTES } from '../queue/refusals.js';
import { redisLimiter } from '../server/admission/redis-limiter.js';
import type { ServedModel } from '../server/context.js';
import { type RunningServer, startServer } from '../server/http-server.js';
import { LoadedModels, type Loading } from '../server/loaded-models.js';
import type { Route } from '../server/route.js';
import { SERVICE_ROUTES } from '../server/routes/index.js';
import { serverMetrics } from '../server/server-metrics.js';
import type { SharedBudget } from '../server/shared-budget.js';
import { UpstreamEngine } from '../upstream/upstream-engine.js';

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

type OnKeptEnd = (end: KeptEnd) => void;

interface ServerParts {
  models: readonly [ServedModel, ...ServedModel[]];
  keys: KeyRing;
  /** Throws io_error when it cannot listen on the port. */
  listen(): Promise<RunningServer>;
  /** See RedisCheck; undefined without Redis. */
  refused: Promise<RedisRefused> | undefined;
  /** Closes queues and workers, then the engines. Running jobs of a shared queue get up to `drainMs`. */
  close(drainMs: number): Promise<void>;
}

/**
 * Builds the parts of `sida serve`: an engine and a queue for each model. Without Redis, the queues live in this
 * process. With Redis, the queues are shared, and the engines run in this process or only in workers elsewhere.
 */
export async function composeServer(
  served: ServedModels['models'],
  logger: Logger,
  sharedBudget?: SharedBudget,
  loading?: Loading,
): Promise<ServerParts> {
  const [{ options }] = served as Several<ServedModels['models'][number]>;
  const keys = new KeyRing(options);
  const { redis } = options;
  const spans = await requestSpans(options);
  const telemetry = redis === undefined ? undefined : await telemetryOf(options);
  const metrics: Metrics[] = [];
  const backends = served.map(({ name, options: own }, i) => {
    const log = name === undefined ? logger : logger.child({ model: name });
    const onKeptEnd: OnKeptEnd = (end) => recordKeptJob(end, metrics[i], log);
    const backend =
      redis === undefined
        ? backendInMemory(own, served.length, onKeptEnd)
        : own.worker === 'none'
          ? backendOfWorkers(own, { url: redis, telemetry }, logger, onKeptEnd)
          : backendInRedis(own, { url: redis, telemetry }, logger, onKeptEnd);
    return { name, options: own, ...backend };
  });
  metrics.push(...serverMetrics(backends as Several<(typeof backends)[number]>));
  const models = backends.map(
    ({ close: _, ...backend }, i): ServedModel => ({ ...backend, metrics: metrics[i]! }),
  ) as Several<ServedModel>;
  const loaded = loading && new LoadedModels(models, loading);
  const checked = redis === undefined ? undefined : checkRedisSettings(redis, logger);
  const limits =
    redis === undefined || options.rateLimit === undefined
      ? undefined
      : redisLimiter(redis, options.rateLimit, logFaults(logger));
  return {
    models,
    keys,
    refused: checked?.refused,
    listen() {
      const [shared] = metrics as Several<Metrics>;
      const dependencies = {
        models,
        options,
        keys,
        logger,
        metrics: shared,
        sharedBudget,
        loaded,
        spans,
        rateLimiter: limits?.limiter,
      };
      return listening(options.host, options.port, '--port', () => startServer(dependencies));
    },
    async close(drainMs) {
      checked?.end();
      loaded?.close();
      await Promise.all(backends.map((backend) => backend.close(drainMs)));
      limits?.close();
    },
  };
}

type Several<T> = [T, ...T[]];

type SharedRedis = Pick<RedisQueueOptions, 'url' | 'telemetry'>;

type Backend = Pick<ServedModel, 'engine' | 'queue' | 'queueBound'> & {
  close(drainMs: number): Promise<void>;
};

/** The bounds of `options` are those of the server: each of its `models` has an equal part of them. */
function backendInMemory(options: ServeOptions, models: number, onKeptEnd: OnKeptEnd): Backend {
  const engine = new EngineProcess(engineConfig(options));
  const queueBound = Math.ceil(options.queueBound / models);
  const queue = new MemoryQueue(engine, {
    bound: queueBound,
    boundBytes: QUEUE_BYTES / models,
    engineTokens: () => engineTokens(options, engine.model),
    deadlineMs: options.deadline,
    keptDeadlineMs: options.jobDeadline,
    retentionMs: options.jobRetention,
    answerBytes: Math.ceil(ANSWER_BYTES / models),
    answers: Math.ceil(options.jobResults / models),
    onKeptEnd,
  });
  return { engine, queue, queueBound, close: () => engine.close(0) };
}

/**
 * Tokens that keep an engine at full speed: those of running generations, the running batch, the prepared batches,
 * and one batch that is filling up.
 */
function engineTokens(
  { lookahead, maxBatchTokens }: Pick<ServeOptions, 'lookahead' | 'maxBatchTokens'>,
  model: ModelInfo | undefined,
): number {
  return (model?.kvTokens ?? 0) + (lookahead + 3) * maxBatchTokens;
}

/** Takes requests in this process and leaves the jobs to engines of other processes. */
function backendOfWorkers(
  options: ServeOptions,
  redis: SharedRedis,
  logger: Logger,
  onKeptEnd: OnKeptEnd,
): Backend {
  const engine = new RemoteEngine(redis.url, options.model);
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
  const engine = new EngineProcess(engineConfig(options));
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
  const { upstream, upstreamKey: key, model } = options;
  const engine =
    upstream === undefined
      ? new EngineProcess(engineConfig(options))
      : new UpstreamEngine({ url: upstream, model, key });
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

/** Calls `start`. Throws io_error when it fails. `flag` is the flag that chooses the port. */
async function listening<T>(host: string, port: number, flag: string, start: () => Promise<T>): Promise<T> {
  try {
    return await start();
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const reason = code === 'EADDRINUSE' ? `another program listens there; choose another ${flag}` : message;
    throw new SidaError({ code: 'io_error', message: `Cannot listen on ${host}:${port}: ${reason}` });
  }
}
