import { randomUUID } from 'node:crypto';
import { pino } from 'pino';
import { afterAll, beforeAll } from 'vitest';
import type { JobQueue } from '../../../../src/queue/job-queue.js';
import { QueueWorker } from '../../../../src/queue/redis/queue-worker.js';
import { RedisQueue } from '../../../../src/queue/redis/redis-queue.js';
import { eventually } from '../../../support/eventually.js';
import { queueConformance } from '../../../support/queue-conformance.js';
import { describeWithRedis, RedisServer } from '../../../support/redis.js';
import { MODEL, ScriptedEngine, SETTINGS } from '../../../unit/queue/scripted-engine.js';

describeWithRedis('with Redis', () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(() => server.end());

  queueConformance(
    'queue in Redis',
    async (settings) => {
      const engine = new ScriptedEngine();
      const queueName = randomUUID();
      const worker = new QueueWorker(
        engine,
        MODEL,
        {
          url: server.url,
          queueName,
          concurrency: settings.concurrency,
          attempts: settings.attempts,
          lockMs: 5_000,
          stalledMs: 1_000,
          answerBytes: settings.answerBytes,
          settings: SETTINGS,
        },
        pino({ level: 'silent' }),
      );
      const producer = new RedisQueue(
        {
          url: server.url,
          bound: settings.bound,
          boundBytes: settings.boundBytes,
          deadlineMs: settings.deadlineMs,
          keptDeadlineMs: settings.keptDeadlineMs,
          keptMs: settings.retentionMs,
          keptJobs: settings.answers,
          queueName: () => queueName,
          workerStats: () => worker.stats,
        },
        () => undefined,
      );
      await eventually(() => producer.outage === undefined, 'the connection');
      // `sida serve` ends in the same order: first the jobs whose clients wait, then the runs of its own worker.
      const queue: JobQueue = new Proxy(producer, {
        get(target, name) {
          if (name === 'drain') {
            return async (drainMs: number) => {
              const begin = performance.now();
              const answered = await target.drain(drainMs);
              const finished = await worker.close(Math.max(0, drainMs - (performance.now() - begin)));
              return answered && finished;
            };
          }
          const value: unknown = Reflect.get(target, name, target);
          return typeof value === 'function' ? value.bind(target) : value;
        },
      });
      return {
        queue,
        engine,
        close: async () => {
          await worker.close(0);
          await producer.close();
        },
      };
    },
    10,
  );
});
