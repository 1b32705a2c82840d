/** Engine and queue of a server, as its options choose them: all in this process, with Redis between, or all elsewhere. */
import type { ServeOptions } from '../config/options.js';
import type { EngineHandle } from '../engine/engine-handle.js';
import { EngineProcess } from '../engine/engine-process.js';
import type { Logger } from '../observability/logger.js';
import type { JobQueue, KeptEnd } from '../queue/job-queue.js';
import { MemoryQueue } from '../queue/memory/memory-queue.js';
import { queueNameOf } from '../queue/redis/queue-name.js';
import { QueueWorker } from '../queue/redis/queue-worker.js';
import { logFaults } from '../queue/redis/redis-client.js';
import { RedisQueue } from '../queue/redis/redis-queue.js';
import { warnOfRedisSettings } from '../queue/redis/redis-settings.js';
import { RemoteEngine } from '../queue/redis/remote-engine.js';
import { engineConfig } from './engine-config.js';

/** Ended jobs that are kept, however small. */
const KEPT_JOBS = 10_000;

type OnKeptEnd = (end: KeptEnd) => void;

/** Who is told what. */
interface Telling {
  logger: Logger;
  onKeptEnd: OnKeptEnd;
}

export interface Backend {
  engine: EngineHandle;
  queue: JobQueue;
  /** Ends what stands between queue and engine; running jobs of a shared queue get up to `drainMs`. Then the engine. */
  close(drainMs: number): Promise<void>;
}

/** `onKeptEnd` is told of kept jobs that end in this process. */
export function openBackend(
  options: ServeOptions,
  logger: Logger,
  onKeptEnd: (end: KeptEnd) => void,
): Backend {
  if (options.redis === undefined) {
    const engine = new EngineProcess(engineConfig(options));
    const queue = new MemoryQueue(engine, {
      bound: options.queueBound,
      engineTokens: engineTokens(options),
      deadlineMs: options.deadline,
      keptDeadlineMs: options.jobDeadline,
      retentionMs: options.jobRetention,
      answerBytes: options.jobResults,
      onKeptEnd,
    });
    return { engine, queue, close: () => engine.close(0) };
  }
  return options.worker === 'none'
    ? remote(options, options.redis, logger, onKeptEnd)
    : embedded(options, options.redis, logger, onKeptEnd);
}

/** What keeps an engine at full speed: generations, the running batch, those prepared ahead, and one that fills up. */
function engineTokens({ lookahead, maxBatchTokens, kvTokens }: ServeOptions): number {
  return kvTokens + (lookahead + 3) * maxBatchTokens;
}

function remote(options: ServeOptions, url: string, logger: Logger, onKeptEnd: OnKeptEnd): Backend {
  const engine = new RemoteEngine(url, options.model);
  const queue = sharedQueue(
    options,
    url,
    { logger, onKeptEnd },
    () => engine.queueName,
    () => engine.state.detail,
  );
  const warned = warnOfRedisSettings(url, logger);
  return {
    engine,
    queue,
    async close() {
      warned.abort();
      await queue.close();
      await engine.close();
    },
  };
}

function embedded(options: ServeOptions, url: string, logger: Logger, onKeptEnd: OnKeptEnd): Backend {
  const engine = new EngineProcess(engineConfig(options));
  let worker: QueueWorker | undefined;
  const queue = sharedQueue(options, url, { logger, onKeptEnd }, () => worker?.queueName);
  const off = engine.onState(({ phase }) => {
    const onKeptEnd = (end: KeptEnd) => queue.keptEnded(end);
    if (phase === 'ready') worker ??= startWorker(options, url, engine, { logger, onKeptEnd });
  });
  const warned = warnOfRedisSettings(url, logger);
  return {
    engine,
    queue,
    async close(drainMs) {
      warned.abort();
      off();
      await worker?.close(drainMs);
      await queue.close();
      await engine.close(0);
    },
  };
}

/** The producers' side; a worker reads its figures too. */
export function sharedQueue(
  options: ServeOptions,
  url: string,
  { logger, onKeptEnd }: Telling,
  queueName: () => string | undefined,
  unnamed?: () => string,
): RedisQueue {
  return new RedisQueue(
    {
      url,
      bound: options.queueBound,
      deadlineMs: options.deadline,
      keptDeadlineMs: options.jobDeadline,
      ...ledgerLimits(options),
      queueName,
      onKeptEnd,
      ...(unnamed !== undefined && { unnamed }),
    },
    logFaults(logger),
  );
}

export type WorkerOptions = Pick<
  ServeOptions,
  | 'activations'
  | 'device'
  | 'routing'
  | 'routingK'
  | 'concurrency'
  | 'lockDuration'
  | 'stalledInterval'
  | 'attempts'
  | 'jobRetention'
  | 'jobResults'
>;

/** `engine` is ready. */
export function startWorker(
  options: WorkerOptions,
  url: string,
  engine: EngineHandle,
  { logger, onKeptEnd }: Telling,
): QueueWorker {
  const model = engine.model!;
  return new QueueWorker(
    engine,
    model,
    {
      url,
      queueName: queueNameOf(model, options),
      concurrency: options.concurrency,
      leaseMs: options.lockDuration,
      lookMs: options.stalledInterval,
      ...ledgerLimits(options),
      onKeptEnd,
    },
    logger,
  );
}

function ledgerLimits({
  attempts,
  jobRetention,
  jobResults,
}: Pick<WorkerOptions, 'attempts' | 'jobRetention' | 'jobResults'>) {
  return { attempts, keptMs: Math.round(jobRetention), keptBytes: jobResults, keptJobs: KEPT_JOBS };
}
