/** The composition root: builds and connects the engine, queue, worker and HTTP server that the options ask for. */

import { KeyRing } from '../access/key-ring.js';
import { engineConfig } from '../config/engine-config.js';
import type { ServeOptions } from '../config/options.js';
import type { ServedModels } from '../config/served-models.js';
import { EngineClient } from '../engine/engine-client.js';
import type { Logger } from '../observability/logger.js';
import type { Metrics } from '../observability/metrics.js';
import { requestSpans } from '../observability/request-spans.js';
import { MemoryQueue } from '../queue/memory/memory-queue.js';
import { recordKeptJob } from '../queue/queue-metrics.js';
import type { RedisRefused } from '../queue/redis/redis-settings.js';
import { ANSWER_BYTES, QUEUE_BYTES } from '../queue/refusals.js';
import { BudgetKeeper } from '../server/budget/budget-keeper.js';
import type { ServedModel } from '../server/context.js';
import { type RunningServer, startServer } from '../server/http-server.js';
import { LoadedModels, type Loading } from '../server/loaded-models.js';
import { serverMetrics } from '../server/server-metrics.js';
import type { SharedBudget } from '../server/shared-budget.js';
import { type Backend, engineTokens, listening, type OnKeptEnd } from './backend.js';

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
  const spans = await requestSpans(options, logger);
  const shared =
    redis === undefined
      ? undefined
      : await (await import('./redis-composition.js')).sharedRedis(redis, options, logger);
  const metrics: Metrics[] = [];
  const backends = served.map(({ name, options: own }, i) => {
    const log = name === undefined ? logger : logger.child({ model: name });
    const onKeptEnd: OnKeptEnd = (end) => recordKeptJob(end, metrics[i], log);
    const backend = shared?.backend(own, onKeptEnd) ?? backendInMemory(own, served.length, onKeptEnd);
    return { name, options: own, ...backend, keeper: BudgetKeeper.of(own, served.length) };
  });
  metrics.push(...serverMetrics(backends as Several<(typeof backends)[number]>));
  const models = backends.map(
    ({ close: _, ...backend }, i): ServedModel => ({ ...backend, metrics: metrics[i]! }),
  ) as Several<ServedModel>;
  const loaded = loading && new LoadedModels(models, loading);
  return {
    models,
    keys,
    refused: shared?.refused,
    listen() {
      const [first] = metrics as Several<Metrics>;
      const dependencies = {
        models,
        options,
        keys,
        logger,
        metrics: first,
        sharedBudget,
        loaded,
        spans,
        limiters: shared?.limiters,
      };
      return listening(options.host, options.port, '--port', () => startServer(dependencies));
    },
    async close(drainMs) {
      shared?.end();
      loaded?.close();
      await Promise.all(backends.map((backend) => backend.close(drainMs)));
      shared?.close();
    },
  };
}

type Several<T> = [T, ...T[]];

/** The bounds of `options` are those of the server: each of its `models` has an equal part of them. */
function backendInMemory(options: ServeOptions, models: number, onKeptEnd: OnKeptEnd): Backend {
  const engine = new EngineClient(engineConfig(options));
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
