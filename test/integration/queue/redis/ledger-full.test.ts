// Redis has reached its maxmemory and may not evict.
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { workerClient } from '../../../../src/queue/redis/redis-client.js';
import { RedisLedger } from '../../../../src/queue/redis/redis-ledger.js';
import { describeWithRedis, RedisServer } from '../../../support/redis.js';
import { acceptIn, LEDGER_LIMITS, newJob, RESULT } from '../../../support/test-ledger.js';

describeWithRedis('a ledger whose Redis is full', () => {
  let server: RedisServer;
  let client: Redis;
  beforeAll(async () => {
    server = await RedisServer.start();
    client = workerClient(server.url);
  });
  afterAll(async () => {
    client.disconnect();
    await server.end();
  });

  it('refuses new jobs, and runs, streams, ends and drops those that it has', async () => {
    const ledger = new RedisLedger(client, `{${randomUUID()}}`, { ...LEDGER_LIMITS, keptMs: 1 });
    const claim = async (token: string, room: number) =>
      (await ledger.claim({ token, worker: 'worker', room, leaseMs: 60_000 })).runs.map(({ id }) => id);
    await ledger.beat('worker', true, 60_000, []);
    const ids: string[] = [];
    for (let i = 0; i < 6; i += 1) ids.push(await acceptIn(ledger, i === 5 ? { deadlineMs: 1 } : {}));
    await client.config('SET', 'maxmemory', '1mb');
    await expect(ledger.accept(newJob())).rejects.toThrow(/OOM/);
    expect(await claim('a', 5)).toEqual(ids.slice(0, 5));
    const run = (at: number) => ({ id: ids[at]!, token: 'a' });
    expect((await ledger.beat('worker', true, 60_000, [run(0)])).answers).toEqual(['ok']);
    expect(await ledger.append(ids[0]!, 'a', 0, ['{}'])).toBe('ok');
    expect(await ledger.complete(ids[0]!, 'a', RESULT)).toBe('ended');
    expect(await ledger.fail(ids[1]!, 'a', { code: 'internal', message: 'failed' })).toBe('ended');
    expect(await ledger.crash(ids[2]!, 'a', false)).toBe('retry');
    expect(await ledger.handBack(ids[3]!, 'a')).toBe('retry');
    expect(await ledger.stop(ids[4]!, 'cancelled', { code: 'cancelled', message: 'stopped' })).toBe(true);
    const { queued, running, expired } = await ledger.status();
    expect([queued, running, expired.map(({ id }) => id)]).toEqual([2, 0, [ids[5]]]);
    await delay(60);
    expect((await ledger.status()).ended).toBe(0);
    expect((await claim('b', 5)).sort()).toEqual([ids[2], ids[3]].sort());
    await expect(ledger.accept(newJob())).rejects.toThrow(/OOM/);
    await client.config('SET', 'maxmemory', '0');
    await acceptIn(ledger);
  });
});
