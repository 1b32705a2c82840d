// Redis's clock is set forward and back. A jump is simulated in the ledger's record of its last look at the clock.
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { workerClient } from '../../../../src/queue/redis/redis-client.js';
import { type NewJob, RedisLedger } from '../../../../src/queue/redis/redis-ledger.js';
import { describeWithRedis, RedisServer } from '../../../support/redis.js';
import { acceptIn, LEDGER_LIMITS, RESULT } from '../../../support/test-ledger.js';

const HOUR_MS = 3_600_000;
/** A jump ages jobs by no more. */
const STEP_MS = 3_000;

describeWithRedis("the ledger's clock", () => {
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

  const accept = (more: Partial<NewJob> = {}) => acceptIn(ledger, more);
  const claim = (token: string, leaseMs = 60_000) =>
    ledger.claim({ token, worker: 'worker', room: 64, leaseMs });
  const jump = async (ms: number) => {
    await ledger.status();
    await client.hincrby(`${ledger.prefix}:ledger:clock`, 'wall', -ms);
  };
  const now = async () => {
    await ledger.status();
    return Number(await client.hget(`${ledger.prefix}:ledger:clock`, 'now'));
  };

  it.each([HOUR_MS, -HOUR_MS, 24 * HOUR_MS, -24 * HOUR_MS, 10 * 60_000])(
    'ends no job early, keeps leases and answers, and gives no negative durations after %i ms',
    async (ms) => {
      const kept = await accept();
      await claim('a');
      await ledger.complete(kept, 'a', RESULT);
      const answered = await accept({ sync: true });
      await claim('b');
      await ledger.complete(answered, 'b', RESULT);
      const running = await accept();
      expect((await claim('c')).runs.map(({ id }) => id)).toEqual([running]);
      const waiting = [await accept(), await accept({ sync: true })];
      for (let times = 0; times < 3; times += 1) await jump(ms);
      expect(await ledger.status()).toMatchObject({
        queued: 2,
        running: 1,
        workers: 1,
        ended: 1,
        expired: [],
      });
      const { runs } = await claim('d');
      expect(runs.map(({ id, attempt }) => [id, attempt])).toEqual(waiting.map((id) => [id, 1]));
      expect((await ledger.beat('worker', true, 60_000, [{ id: running, token: 'c' }])).answers).toEqual([
        'ok',
      ]);
      expect(await ledger.complete(running, 'c', RESULT)).toBe('ended');
      for (const id of [kept, answered, running]) {
        const { createdMs, startedMs, finishedMs, status } = (await ledger.read(id)).record!;
        expect(status).toBe('completed');
        expect(startedMs! - createdMs).toBeGreaterThanOrEqual(0);
        expect(finishedMs! - startedMs!).toBeGreaterThanOrEqual(0);
        expect(finishedMs! - createdMs).toBeLessThan(3 * STEP_MS + 5_000);
      }
    },
  );

  it('ages everything by a few seconds at most with a jump, and by nothing when the clock is set back', async () => {
    const before = await now();
    await jump(HOUR_MS);
    const after = await now();
    expect(after - before).toBeGreaterThanOrEqual(STEP_MS);
    expect(after - before).toBeLessThan(STEP_MS + 5_000);
    await jump(-HOUR_MS);
    expect((await now()) - after).toBeLessThan(5_000);
    await delay(120);
    expect((await now()) - after).toBeGreaterThanOrEqual(100);
  });

  it('goes on from the last heartbeat when it is lost, however far the clock of Redis is ahead', async () => {
    await client.hincrby(`${ledger.prefix}:ledger:clock`, 'now', -24 * HOUR_MS);
    await ledger.beat('worker', true, 60_000, []);
    const before = await now();
    const waiting = await accept({ deadlineMs: 60_000 });
    await client.del(`${ledger.prefix}:ledger:clock`);
    expect(Math.abs((await now()) - before)).toBeLessThan(5_000);
    expect(await ledger.status()).toMatchObject({ queued: 1, expired: [] });
    expect((await claim('a')).runs.map(({ id }) => id)).toEqual([waiting]);
  });

  it('still ends a job at its deadline, and drops answers after their time, at either side of a jump', async () => {
    ledger = new RedisLedger(client, `{${randomUUID()}}`, { ...LEDGER_LIMITS, keptMs: 4_000 });
    const kept = await accept();
    await claim('a');
    await ledger.complete(kept, 'a', RESULT);
    const late = await accept({ deadlineMs: 4_000 });
    await jump(-HOUR_MS);
    expect(await ledger.status()).toMatchObject({ queued: 1, ended: 1, expired: [] });
    // Two jumps age everything by twice the longest step.
    await jump(HOUR_MS);
    await jump(HOUR_MS);
    const { expired } = await ledger.status();
    expect(expired).toMatchObject([{ id: late, status: 'failed' }]);
    expect(expired[0]!.finishedMs! - expired[0]!.createdMs).toBeGreaterThanOrEqual(4_000);
    expect((await ledger.read(kept)).record).toBeUndefined();
  });

  it('lets no key of a job expire by a jump of Redis alone', async () => {
    const open = await accept({ key: 'key', digest: 'digest' });
    const ended = await accept({ sync: true });
    await claim('a');
    await ledger.append(open, 'a', 0, ['{}']);
    await ledger.complete(ended, 'a', RESULT);
    const keys = (await client.keys(`${ledger.prefix}:*`)).filter((key) => /:(job|deltas|key):/.test(key));
    expect(keys.length).toBe(4);
    for (const key of keys) expect(await client.pttl(key)).toBeGreaterThan(6 * 24 * HOUR_MS);
  });
});
