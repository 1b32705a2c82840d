// Redis loses the record of a job that a server follows.
import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import type { JobEvent } from '../../../../src/queue/job-queue.js';
import { RedisQueue } from '../../../../src/queue/redis/redis-queue.js';
import { eventually } from '../../../support/eventually.js';
import { job, newId, OWNER } from '../../../support/queue-conformance/harness.js';
import { describeWithRedis, RedisServer } from '../../../support/redis.js';

describeWithRedis('a job whose record is lost', () => {
  let server: RedisServer;
  let queue: RedisQueue;
  let prefix: string;
  beforeAll(async () => {
    server = await RedisServer.start();
  });
  afterAll(() => server.end());
  beforeEach(async () => {
    const name = `{${randomUUID()}}`;
    prefix = `sida:${name}:ledger`;
    const times = { deadlineMs: 60_000, keptDeadlineMs: 60_000, keptMs: 60_000 };
    const limits = { bound: 10, attempts: 3, keptBytes: 1 << 20, keptJobs: 10, ...times };
    queue = new RedisQueue({ url: server.url, queueName: () => name, ...limits }, () => undefined);
    await eventually(() => queue.outage === 'No worker serves the model', 'the connection');
  });
  afterEach(() => queue.close());

  const enqueue = async () => (await queue.enqueue(newId(), OWNER, job('a'))).record.id;

  it.each(['del', 'set'] as const)('ends its watches, which then hold nothing (%s)', async (command) => {
    const id = await enqueue();
    const events: JobEvent[] = [];
    await queue.watch(id, OWNER, (event) => events.push(event));
    expect(queue.stats.kept.watching).toBe(1);
    await server.use(async (client) => {
      await client.del(`${prefix}:job:${id}`);
      if (command === 'set') await client.set(`${prefix}:job:${id}`, 'not a record');
    });
    await eventually(() => events.length > 0, 'the end of the watch');
    expect(events).toEqual([{ type: 'lost' }]);
    expect(queue.stats.kept.watching).toBe(0);
  });

  it('is answered with not_ready when its client waits', async () => {
    const outcome = queue.submit(newId(), job('a')).catch((error: unknown) => error);
    const lost = async () => (await server.use((client) => client.keys(`${prefix}:job:*`)))[0];
    await eventually(async () => (await lost()) !== undefined, 'the record');
    const key = (await lost())!;
    await server.use((client) => client.del(key));
    expect(await outcome).toMatchObject({ code: 'not_ready' });
  });

  it('does not count as waiting for long, nor does any job after FLUSHDB', async () => {
    const ids = [await enqueue(), await enqueue()];
    await server.use(async (client) => {
      await client.del(`${prefix}:job:${ids[0]}`);
      await client.hdel(`${prefix}:counters`, 'auditedAt');
    });
    await eventually(() => queue.stats.waiting === 1, 'the audit');
    await server.use((client) => client.flushdb());
    await eventually(() => queue.stats.waiting === 0, 'the next look');
    await enqueue();
    await eventually(() => queue.stats.waiting === 1, 'the next look');
  });
});
