// The ledger by itself: which worker runs a job, which run counts, what is visible and what is kept.
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { workerClient } from '../../../../src/queue/redis/redis-client.js';
import { type NewJob, RedisLedger } from '../../../../src/queue/redis/redis-ledger.js';
import { eventually } from '../../../support/eventually.js';
import { describeWithRedis, RedisServer } from '../../../support/redis.js';
import { acceptIn, LEDGER_LIMITS, newJob, REQUEST, RESULT } from '../../../support/test-ledger.js';
import { answerTo } from '../../../unit/queue/scripted-engine.js';

describeWithRedis('the ledger', () => {
  let server: RedisServer;
  let client: Redis;
  let ledger: RedisLedger;
  beforeAll(async () => {
    server = await RedisServer.start();
    client = workerClient(server.url);
    ledger = new RedisLedger(client, '{test}', LEDGER_LIMITS);
  });
  afterAll(async () => {
    client.disconnect();
    await server.end();
  });

  const accept = (more: Partial<NewJob> = {}) => acceptIn(ledger, more);
  const beat = () => ledger.beat('worker', true, 60_000, []);
  const totals = async () => (await ledger.status()).totals;

  /** Starts the run `token` of the only waiting job. */
  const begin = async (token: string, leaseMs = 60_000) => {
    const claimed = await claim(token, leaseMs);
    expect(claimed.runs).toMatchObject([{ token }]);
    expect(claimed.runs.length).toBe(1);
    return claimed.runs[0]!;
  };
  const claim = (token: string, leaseMs = 60_000, room = 64) =>
    ledger.claim({ token, worker: 'worker', room, leaseMs });
  /** Starts a run and ends its lease. */
  const loseLease = async (token: string) => {
    const run = await begin(token);
    await client.zadd('sida:{test}:ledger:leases', 1, run.id);
    return run;
  };
  const check = async (id: string, token: string) =>
    (await ledger.beat('worker', true, 60_000, [{ id, token }])).answers;

  // A recent heartbeat shows that Redis was not away when a lease ends.
  beforeEach(async () => {
    await client.del('sida:{test}:ledger:queued', 'sida:{test}:ledger:leases');
    await beat();
  });

  it('drops the late result of a run that another has replaced, and counts it once', async () => {
    const before = await totals();
    const id = await accept();
    expect(await loseLease('frozen')).toMatchObject({ id, attempt: 1 });
    expect(await begin('next')).toMatchObject({ id, attempt: 2 });
    expect(await ledger.complete(id, 'next', RESULT)).toBe('ended');
    const wrong = JSON.stringify({ ...answerTo(REQUEST), promptTokens: 999 });
    expect(await ledger.complete(id, 'frozen', wrong)).toBe('fenced');
    expect(await ledger.complete(id, 'frozen', wrong)).toBe('fenced');
    expect(await check(id, 'frozen')).toEqual(['fenced']);
    const { record } = await ledger.read(id);
    expect(record).toMatchObject({ status: 'completed', attempts: 2, result: JSON.parse(RESULT) });
    expect((await totals()).fenced - before.fenced).toBe(1);
  });

  it('drops a late crash and late deltas, while the next run continues', async () => {
    const id = await accept();
    await loseLease('frozen');
    await begin('next');
    expect(await ledger.crash(id, 'frozen', true)).toBe('fenced');
    expect(await ledger.append(id, 'frozen', 0, ['{}'])).toBe('fenced');
    expect(await check(id, 'next')).toEqual(['ok']);
    expect((await ledger.read(id)).record).toMatchObject({ status: 'running', attempts: 2 });
  });

  it('counts a late run once, even when the job is gone', async () => {
    const before = await totals();
    const id = await accept({ sync: true });
    await loseLease('frozen');
    await begin('next');
    expect(await ledger.complete(id, 'next', RESULT)).toBe('ended');
    await ledger.taken(id);
    const late = await Promise.all([check(id, 'frozen'), ledger.complete(id, 'frozen', RESULT)]);
    expect(late).toEqual([['fenced'], 'fenced']);
    expect((await totals()).fenced - before.fenced).toBe(1);
  });

  it('treats a repeated command as one', async () => {
    const id = await accept();
    const first = await claim('a');
    await accept();
    expect(first.runs).toMatchObject([{ id, token: 'a', attempt: 1 }]);
    expect((await claim('a')).runs).toEqual(first.runs);
    expect((await ledger.status()).queued).toBe(1);
    expect(await ledger.crash(id, 'a', true)).toBe('retry');
    expect(await ledger.crash(id, 'a', true)).toBe('retry');
    const { runs } = await claim('b', 60_000, 1);
    expect(runs).toMatchObject([{ id, attempt: 2, crashes: 1 }]);
    expect(await ledger.complete(id, 'b', RESULT)).toBe('ended');
    expect(await ledger.complete(id, 'b', RESULT)).toBe('ended');
  });

  it('gives the oldest jobs first, no more than the worker has room for, and none twice', async () => {
    const ids = [];
    for (let i = 0; i < 5; i += 1) {
      ids.push(await accept());
    }
    const taken = async (token: string, room: number) =>
      (await claim(token, 60_000, room)).runs.map(({ id }) => id);
    expect(await taken('a', 2)).toEqual(ids.slice(0, 2));
    expect(await ledger.crash(ids[0]!, 'a', false)).toBe('retry');
    // A requeued job keeps its place.
    expect(await taken('b', 2)).toEqual([ids[0], ids[2]]);
    expect(await taken('c', 64)).toEqual(ids.slice(3));
    expect(await claim('d')).toEqual({ runs: [], ended: [], broken: [], more: false });
  });

  it('spreads waiting jobs over the workers', async () => {
    for (let i = 0; i < 6; i += 1) await accept();
    await ledger.beat('another worker', true, 60_000, []);
    expect((await claim('a')).runs.length).toBe(3);
    expect((await claim('b')).runs.length).toBe(2);
    await ledger.leave('another worker');
    expect((await claim('c')).runs.length).toBe(1);
  });

  it('sends a wake-up to one worker with room for each waiting job', async () => {
    const workers = ['one', 'two'];
    const woken: string[] = [];
    const subscriber = client.duplicate();
    subscriber.on('message', (channel: string) => woken.push(channel.split(':').at(-1)!));
    await subscriber.subscribe(...workers.map((worker) => ledger.workOf(worker)));
    const claimAs = (worker: string) =>
      ledger.claim({ token: randomUUID(), worker, room: 1, leaseMs: 60_000 });
    for (const worker of workers) {
      await ledger.beat(worker, true, 60_000, []);
      expect((await claimAs(worker)).more).toBe(false);
    }
    await accept();
    await accept();
    await accept();
    await eventually(() => woken.length === 2, 'two messages');
    expect([...woken].sort()).toEqual(workers);
    // Workers without room get no wake-ups.
    for (const worker of workers) expect(await claimAs(worker)).toMatchObject({ runs: [{}], more: true });
    await accept();
    await ledger.beat('one', false, 60_000, []);
    await delay(20);
    expect(woken.length).toBe(2);
    subscriber.disconnect();
    for (const worker of workers) await ledger.leave(worker);
  });

  it('keeps a job with its worker as long as the lease is renewed', async () => {
    const id = await accept();
    await begin('a', 2000);
    for (let i = 0; i < 4; i += 1) {
      await delay(600);
      expect((await ledger.beat('worker', true, 2000, [{ id, token: 'a' }])).answers).toEqual(['ok']);
      expect((await claim('b')).runs.length).toBe(0);
    }
    await client.zadd('sida:{test}:ledger:leases', 1, id);
    expect((await claim('b')).runs).toMatchObject([{ id, attempt: 2 }]);
  });

  it('extends leases that could not be renewed while Redis was away', async () => {
    const id = await accept();
    await begin('a', 20);
    await delay(100);
    expect((await claim('b', 20)).runs.length).toBe(0);
    expect(await check(id, 'a')).toEqual(['ok']);
  });

  it('does not count the result of a job that was stopped', async () => {
    const before = await totals();
    const id = await accept();
    await begin('a');
    await ledger.stop(id, 'cancelled', { code: 'cancelled', message: 'stopped' });
    expect(await ledger.complete(id, 'a', RESULT)).toBe('stopped');
    expect((await ledger.read(id)).record).toMatchObject({ status: 'cancelled', result: null });
    expect((await totals()).fenced).toBe(before.fenced);
  });

  it('gives up a job whose worker died in every run, and reports its end', async () => {
    const before = await totals();
    const id = await accept();
    for (const token of ['a', 'b', 'c']) await loseLease(token);
    const end = { status: 'failed', attempts: 3, error: { code: 'engine_crashed' } };
    expect(await claim('d')).toMatchObject({ runs: [], ended: [{ id, ...end }] });
    expect((await claim('d')).runs.length).toBe(0);
    expect((await ledger.read(id)).record).toMatchObject(end);
    expect((await totals()).quarantined - before.quarantined).toBe(1);
  });

  it('does not count a run that was handed back towards the limit', async () => {
    const id = await accept();
    for (let run = 1; run <= 5; run += 1) {
      expect(await begin(`run ${run}`)).toMatchObject({ attempt: run });
      expect(await ledger.handBack(id, `run ${run}`)).toBe('retry');
    }
    expect((await ledger.read(id)).record).toMatchObject({ status: 'queued' });
  });

  it('never repeats a job whose waiting client has received deltas', async () => {
    const id = await accept({ sync: true, kind: 'complete' });
    await loseLease('a');
    expect(await ledger.append(id, 'a', 0, ['{}'])).toBe('ok');
    expect((await claim('b')).runs).toEqual([]);
    expect((await ledger.read(id)).record).toMatchObject({
      status: 'failed',
      error: { code: 'engine_crashed' },
    });
  });

  it('appends deltas once, however often a broken connection sends them', async () => {
    const id = await accept({ kind: 'complete' });
    await begin('a');
    const all = ['{"n":1}', '{"n":2}', '{"n":3}', '{"n":4}'];
    expect(await ledger.append(id, 'a', 0, all.slice(0, 2))).toBe('ok');
    expect(await ledger.append(id, 'a', 0, all.slice(0, 2))).toBe('ok');
    expect(await ledger.append(id, 'a', 2, all.slice(2))).toBe('ok');
    expect(await ledger.append(id, 'a', 2, all.slice(2))).toBe('ok');
    expect((await ledger.news(id, 0, 0)).deltas).toEqual(all);
    expect((await ledger.news(id, 1, 3)).deltas).toEqual(all.slice(3));
    expect(await client.hget(`${ledger.prefix}:ledger:job:${id}`, 'deltaBytes')).toBe(String(4 * 7));
    await ledger.complete(id, 'a', RESULT);
  });

  it('forgets an idempotency key with its job', async () => {
    const few = new RedisLedger(client, '{few}', { ...LEDGER_LIMITS, keptJobs: 1 });
    const ids: string[] = [];
    for (const key of ['first', 'second', 'third']) {
      ids.push(await acceptIn(few, { key, digest: key }));
      const { runs } = await few.claim({ token: key, worker: 'worker', room: 1, leaseMs: 60_000 });
      await few.complete(runs[0]!.id, key, RESULT);
    }
    const again = (key: string) => few.accept(newJob({ key, digest: key }));
    expect(await again('third')).toEqual({ as: 'exists', id: ids[2] });
    expect(await client.keys('sida:{few}:ledger:key:*')).toEqual(['sida:{few}:ledger:key:third']);
    expect(await again('first')).toEqual({ as: 'accepted' });
  });

  it('keeps no more jobs than it may when several end in one millisecond', async () => {
    const few = new RedisLedger(client, '{tied}', { ...LEDGER_LIMITS, keptJobs: 1 });
    const ended = 'sida:{tied}:ledger:ended';
    let latest = '';
    for (const token of ['a', 'b', 'c', 'd']) {
      latest = await acceptIn(few, {});
      const { runs } = await few.claim({ token, worker: 'worker', room: 1, leaseMs: 60_000 });
      // As if the others had ended at the same time, and their ids came behind.
      for (const other of await client.zrange(ended, '0', '-1')) await client.zadd(ended, 9e15, other);
      await few.complete(runs[0]!.id, token, RESULT);
      expect(await client.zrange(ended, '0', '-1')).toEqual([latest]);
    }
  });

  it('reads the form of a job for its record, and not again for its news', async () => {
    const id = await accept();
    expect((await ledger.read(id)).record!.form).not.toBeNull();
    expect((await ledger.news(id, 0, 0)).record).toMatchObject({ id, status: 'queued', form: null });
    const waited = await accept({ sync: true, form: '' });
    expect((await ledger.read(waited)).record).toMatchObject({ id: waited, sync: true, form: null });
  });

  it('ends running and waiting jobs that are past their deadline', async () => {
    const running = await accept({ deadlineMs: 30 });
    await begin('a');
    const waiting = await accept({ deadlineMs: 30 });
    await delay(60);
    await ledger.status();
    for (const id of [waiting, running]) {
      expect((await ledger.read(id)).record).toMatchObject({
        status: 'failed',
        error: { code: 'deadline_exceeded' },
      });
    }
    expect(await ledger.status()).toMatchObject({ queued: 0, running: 0 });
  });

  it('drops jobs whose records were removed or replaced, and continues with the others', async () => {
    const ids = [await accept(), await accept(), await accept()];
    const key = (id: string) => `sida:{test}:ledger:job:${id}`;
    await client.del(key(ids[0]!));
    await client.set(key(ids[1]!), 'not a record');
    const { runs, broken } = await claim('a');
    expect([runs.map(({ id }) => id), broken.sort()]).toEqual([[ids[2]], ids.slice(0, 2).sort()]);
    await client.zadd('sida:{test}:ledger:leases', 1, ids[2]!);
    await client.set(key(ids[2]!), 'not a record');
    expect(await check(ids[2]!, 'a')).toEqual(['fenced']);
    expect((await claim('b')).runs.length).toBe(0);
    expect(await ledger.status()).toMatchObject({ queued: 0, running: 0 });
  });

  it.each([
    ['a field that is not a number', 'attempts', 'many'],
    ['an unknown status', 'status', 'finished'],
    ['a result of another shape', 'result', '{"kind":"classify"}'],
    ['a result that is not JSON', 'result', 'x'.repeat(100)],
    ['an error with an unknown code', 'error', '{"code":"boom","message":""}'],
  ])('refuses to read %s', async (_name, field, value) => {
    const id = await accept();
    await client.hset(`${ledger.prefix}:ledger:job:${id}`, field, value);
    await expect(ledger.read(id)).rejects.toMatchObject({ code: 'internal' });
  });

  it('keeps the answer for a waiting client until the deadline, in case Redis goes away', async () => {
    const leftMs = async (id: string) => {
      const now = Number(await client.hget('sida:{test}:ledger:clock', 'now'));
      return Number(await client.zscore('sida:{test}:ledger:leaving', id)) - now;
    };
    const answered = async (deadlineMs: number) => {
      const id = await accept({ sync: true, deadlineMs });
      await begin('a');
      await ledger.append(id, 'a', 0, ['{}']);
      await ledger.complete(id, 'a', RESULT);
      return id;
    };
    expect(await leftMs(await answered(300_000))).toBeGreaterThan(290_000);
    expect(await leftMs(await answered(1_000))).toBeGreaterThan(50_000);
    expect(await leftMs(await answered(300_000))).toBeLessThanOrEqual(310_100);
    expect(await leftMs(await answered(70_000.5))).toBeGreaterThan(65_000);
    const stopped = await accept({ sync: true, deadlineMs: 300_000 });
    await ledger.stop(stopped, 'cancelled', { code: 'cancelled', message: 'gone' });
    expect(await leftMs(stopped)).toBeLessThanOrEqual(60_100);
    const taken = await answered(300_000);
    await ledger.taken(taken);
    expect(await client.zscore('sida:{test}:ledger:leaving', taken)).toBeNull();
  });

  it('fails a job whose request in Redis is too large, without reading the request', async () => {
    const id = await accept();
    // The ledger's own connection gives up a command that takes seconds, as this one may.
    const key = `${ledger.prefix}:ledger:job:${id}`;
    await server.use((other) => other.hset(key, 'request', 'x'.repeat(100 << 20)));
    const end = { status: 'failed', error: { code: 'internal' } };
    expect((await claim('a')).ended).toMatchObject([{ id, ...end }]);
    expect((await ledger.read(id)).record).toMatchObject(end);
  });
});
