/** A worker with a scripted engine, and queues of servers, on one Redis. */
import { randomUUID } from 'node:crypto';
import type { Telemetry } from 'bullmq';
import { pino } from 'pino';
import { QueueWorker } from '../../src/queue/redis/queue-worker.js';
import { RedisQueue, type RedisQueueOptions } from '../../src/queue/redis/redis-queue.js';
import { MODEL, ScriptedEngine, SETTINGS } from '../unit/queue/scripted-engine.js';
import { eventually } from './eventually.js';

type Options = Omit<RedisQueueOptions, 'url' | 'queueName'>;

export const REDIS_QUEUE: Options = {
  bound: 50,
  deadlineMs: 60_000,
  keptDeadlineMs: 60_000,
  keptMs: 60_000,
  keptJobs: 1000,
};

export function openRedisQueues(
  url: string,
  more: Partial<Options> = {},
  workers: {
    attempts?: number;
    concurrency?: number;
    answerBytes?: number;
    telemetry?: Telemetry | undefined;
  } = {},
) {
  const queueName = randomUUID();
  const options = { ...REDIS_QUEUE, ...more };
  const engine = new ScriptedEngine();
  const opened: { close(): Promise<unknown> }[] = [];
  const open = async (own: Partial<Options> = {}, reason?: string) => {
    const queue = new RedisQueue({ url, queueName: () => queueName, ...options, ...own }, () => undefined);
    opened.push(queue);
    await eventually(() => queue.outage === reason, 'the connection');
    return queue;
  };
  const work = (onKeptEnd: NonNullable<Options['onKeptEnd']> = () => undefined) => {
    const limits = { concurrency: 8, attempts: 3, lockMs: 5_000, stalledMs: 1_000, ...workers };
    const worker = new QueueWorker(
      engine,
      MODEL,
      { url, queueName, settings: SETTINGS, ...limits, onKeptEnd },
      pino({ level: 'silent' }),
    );
    opened.unshift({ close: () => worker.close(0) });
    return worker;
  };
  const close = async () => {
    for (const each of opened) await each.close();
  };
  return { engine, open, work, close };
}
