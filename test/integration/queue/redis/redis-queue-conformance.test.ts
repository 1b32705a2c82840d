import { afterAll, beforeAll } from 'vitest';
import { queueConformance } from '../../../support/queue-conformance.js';
import { describeWithRedis, RedisServer } from '../../../support/redis.js';
import { openRedisQueues } from '../../../support/redis-queue.js';

describeWithRedis('with Redis', () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(() => server.end());

  queueConformance(
    'queue in Redis',
    async ({ concurrency, retentionMs, answerBytes, answers, ...settings }) => {
      const kept = { keptMs: retentionMs, keptJobs: answers };
      const { engine, open, work, close } = openRedisQueues(
        server.url,
        { ...settings, ...kept },
        { concurrency, answerBytes },
      );
      const worker = work();
      const queue = await open({ workerStats: () => worker.stats });
      // `sida serve` ends in the same order: first the jobs whose clients wait, then the runs of its own worker.
      const drain = queue.drain.bind(queue);
      queue.drain = async (drainMs) => {
        const begin = performance.now();
        const answered = await drain(drainMs);
        return (await worker.close(Math.max(0, drainMs - (performance.now() - begin)))) && answered;
      };
      return { queue, engine, close };
    },
    10,
  );
});
