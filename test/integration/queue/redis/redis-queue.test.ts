// The queue in Redis over a real engine process.
import { randomUUID } from 'node:crypto';
import { pino } from 'pino';
import { afterAll, beforeAll } from 'vitest';
import type { QueueWorker } from '../../../../src/queue/redis/queue-worker.js';
import type { RedisQueue } from '../../../../src/queue/redis/redis-queue.js';
import { eventually } from '../../../support/eventually.js';
import { engineConformance } from '../../../support/queue-conformance.js';
import { compiled, startEngine } from '../../../support/real-engine.js';
import { describeWithRedis, RedisServer } from '../../../support/redis.js';
import { SETTINGS } from '../../../unit/queue/scripted-engine.js';

const KEPT = { keptMs: 60_000, keptJobs: 1000 };

describeWithRedis('with Redis', () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(() => server.end());

  engineConformance('queue in Redis over the engine process', async () => {
    const engine = await startEngine();
    const queueName = randomUUID();
    const url = server.url;
    const producers = await compiled<{ RedisQueue: typeof RedisQueue }>('queue/redis/redis-queue.js');
    const workers = await compiled<{ QueueWorker: typeof QueueWorker }>('queue/redis/queue-worker.js');
    const times = { attempts: 3, lockMs: 5_000, stalledMs: 1_000 };
    const worker = new workers.QueueWorker(
      engine,
      engine.model!,
      { url, queueName, concurrency: 64, ...times, settings: SETTINGS },
      pino({ level: 'silent' }),
    );
    const deadlines = { deadlineMs: 60_000, keptDeadlineMs: 60_000 };
    const queue = new producers.RedisQueue(
      { url, bound: 512, queueName: () => queueName, ...deadlines, ...KEPT },
      () => undefined,
    );
    await eventually(() => queue.outage === undefined, 'the connection');
    return {
      queue,
      run: (request) => engine.run(randomUUID(), request, { signal: new AbortController().signal }),
      kill: () => process.kill(engine.pid!, 'SIGKILL'),
      close: async () => {
        await worker.close(0);
        await queue.close();
        await engine.close(0);
      },
    };
  });
});
