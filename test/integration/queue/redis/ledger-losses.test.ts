// Redis loses keys of the ledger: by eviction, by hand, or a part of them by FLUSHDB. What remains must follow it.
import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { workerClient } from '../../../../src/queue/redis/redis-client.js';
import { type NewJob, RedisLedger } from '../../../../src/queue/redis/redis-ledger.js';
import { describeWithRedis, RedisServer } from '../../../support/redis.js';
import { acceptIn, LEDGER_LIMITS, RESULT } from '../../../support/test-ledger.js';

describeWithRedis('a ledger that loses keys', () => {
  let server: RedisServer;
  let client: Redis;
  let ledger: RedisLedger;
  beforeAll(async () => {
    server = await RedisServer.start();
    client = workerClient(server.url);
  });
  afterAll(async () => {
    client.disconnect();
    await server.end();
  });
  beforeEach(async () => {
    ledger = new RedisLedger(client, `{${randomUUID()}}`, LEDGER_LIMITS);
    await ledger.beat('worker', true, 60_000, []);
  });

  const key = (name: string) => `${ledger.prefix}:ledger:${name}`;
  const accept = (more: Partial<NewJob> = {}) => acceptIn(ledger, more);
  const claim = async (token: string, room = 64) =>
    (await ledger.claim({ token, worker: 'worker', room, leaseMs: 60_000 })).runs.map(({ id }) => id);
  const keep = async () => {
    const id = await accept();
    await claim(id);
    await ledger.complete(id, id, RESULT);
    return id;
  };
  /** The next status audits the ledger. */
  const audited = async () => {
    await client.hdel(key('counters'), 'auditedAt');
    return ledger.status();
  };

  it.each(['DEL', 'a value of another type'])(
    'forgets jobs of any state whose records are gone by %s',
    async (how) => {
      const ended = await keep();
      const other = await keep();
      const running = await accept();
      await claim('a');
      const waiting = await accept();
      const before = await ledger.status();
      expect(before).toMatchObject({ queued: 1, running: 1, ended: 2 });
      for (const id of [ended, running, waiting]) {
        await client.del(key(`job:${id}`));
        if (how !== 'DEL') await client.set(key(`job:${id}`), 'not a record');
      }
      const after = await audited();
      expect(after).toMatchObject({ queued: 0, running: 0, ended: 1 });
      expect(after.totals.answerBytes).toBe(RESULT.length);
      expect((await ledger.read(other)).record).toMatchObject({ status: 'completed' });
      expect(await client.keys(key('job:*'))).toEqual([key(`job:${other}`)]);
      for (const set of ['queued', 'leases', 'deadlines', 'leaving'])
        expect(await client.zcard(key(set))).toBe(0);
    },
  );

  it.each(['audit', 'read'])(
    'runs waiting and running jobs whose places in the queue are lost (%s)',
    async (by) => {
      const running = await accept();
      await claim('a');
      const waiting = [await accept(), await accept()];
      await client.del(key('queued'), key('leases'));
      if (by === 'audit') expect(await audited()).toMatchObject({ queued: 2, running: 1 });
      else {
        await client.del(key('deadlines'));
        for (const id of [running, ...waiting]) await ledger.read(id);
      }
      expect(await ledger.status()).toMatchObject({ queued: 2, running: 1 });
      expect(await client.zcard(key('deadlines'))).toBe(3);
      expect((await ledger.beat('worker', true, 60_000, [{ id: running, token: 'a' }])).answers).toEqual([
        'ok',
      ]);
      expect(await claim('b')).toEqual(waiting);
    },
  );

  it('counts the bytes of the answers that it keeps, whichever of their keys is lost', async () => {
    for (const lost of ['counters', 'sizes', 'ended']) {
      await keep();
      await client.del(key(lost));
      await keep();
      const { ended, totals } = await audited();
      expect(totals.answerBytes).toBe(lost === 'sizes' ? (ended - 3) * RESULT.length : ended * RESULT.length);
    }
  });

  it('lets new jobs wait behind the earlier ones when its counters are lost', async () => {
    const first = [await accept(), await accept(), await accept()];
    await client.del(key('counters'));
    await audited();
    const last = await accept();
    expect(await claim('a')).toEqual([...first, last]);
  });
});
