// The ledger by itself: which run counts, what is visible, what is kept.
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { workerClient } from '../../../src/queue/redis-client.js';
import { type NewJob, RedisLedger } from '../../../src/queue/redis-ledger.js';
import type { TaskJob } from '../../../src/tasks/registry.js';
import { describeWithRedis, RedisServer } from '../../support/redis.js';
import { answerTo } from './scripted-engine.js';

const LIMITS = { attempts: 3, keptMs: 60_000, keptBytes: 1 << 20, keptJobs: 100 };
const REQUEST: TaskJob = { kind: 'tokenize', inputs: ['a'], addSpecialTokens: true };
const RESULT = JSON.stringify(answerTo(REQUEST));

describeWithRedis('the result ledger', () => {
  let server: RedisServer;
  let client: Redis;
  let ledger: RedisLedger;
  beforeAll(async () => {
    server = await RedisServer.start();
    client = workerClient(server.url);
    ledger = new RedisLedger(client, '{test}', LIMITS);
  });
  afterAll(async () => {
    client.disconnect();
    await server.end();
  });

  const accept = async (more: Partial<NewJob> = {}): Promise<string> => {
    const job: NewJob = {
      id: randomUUID(),
      kind: 'tokenize',
      owner: 'owner',
      sync: false,
      form: '{"logprobs":null,"tokenIds":false,"experts":false}',
      request: JSON.stringify(REQUEST),
      deadlineMs: 60_000,
      bound: 1000,
      key: '',
      digest: '',
      ...more,
    };
    expect(await ledger.accept(job)).toEqual({ as: 'accepted' });
    return job.id;
  };
  const totals = async () => (await ledger.status()).totals;

  it('fences off the late result of a run that another one replaced, and counts it once', async () => {
    const before = await totals();
    const id = await accept();
    expect(await ledger.begin(id, 'frozen')).toMatchObject({ attempt: 1 });
    expect(await ledger.begin(id, 'next')).toMatchObject({ attempt: 2 });
    expect(await ledger.complete(id, 'next', RESULT)).toBe('ended');
    const wrong = JSON.stringify({ ...answerTo(REQUEST), promptTokens: 999 });
    expect(await ledger.complete(id, 'frozen', wrong)).toBe('fenced');
    expect(await ledger.complete(id, 'frozen', wrong)).toBe('fenced');
    expect(await ledger.check([{ id, token: 'frozen' }])).toEqual(['fenced']);
    const { record } = await ledger.read(id);
    expect(record).toMatchObject({ status: 'completed', attempts: 2, result: JSON.parse(RESULT) });
    expect((await totals()).fenced - before.fenced).toBe(1);
  });

  it('fences off a late crash and late pieces too, while the next run goes on', async () => {
    const id = await accept();
    await ledger.begin(id, 'frozen');
    await ledger.begin(id, 'next');
    expect(await ledger.crash(id, 'frozen', true)).toBe('fenced');
    expect(await ledger.append(id, 'frozen', ['{}'])).toBe('fenced');
    expect(await ledger.check([{ id, token: 'next' }])).toEqual(['ok']);
    expect((await ledger.read(id)).record).toMatchObject({ status: 'running', attempts: 2 });
  });

  it('takes a command that was sent twice as one', async () => {
    const id = await accept();
    const first = await ledger.begin(id, 'a');
    expect(await ledger.begin(id, 'a')).toEqual(first);
    expect(await ledger.crash(id, 'a', true)).toBe('retry');
    expect(await ledger.crash(id, 'a', true)).toBe('retry');
    expect(await ledger.begin(id, 'b')).toMatchObject({ attempt: 2, crashes: 1 });
    expect(await ledger.complete(id, 'b', RESULT)).toBe('ended');
    expect(await ledger.complete(id, 'b', RESULT)).toBe('ended');
  });

  it('does not count the result of a job that was stopped', async () => {
    const before = await totals();
    const id = await accept();
    await ledger.begin(id, 'a');
    await ledger.stop(id, 'cancelled', { code: 'cancelled', message: 'stopped' });
    expect(await ledger.complete(id, 'a', RESULT)).toBe('stopped');
    expect((await ledger.read(id)).record).toMatchObject({ status: 'cancelled', result: null });
    expect((await totals()).fenced).toBe(before.fenced);
  });

  it('gives up a job whose runs all ended with their worker, and says so', async () => {
    const before = await totals();
    const id = await accept();
    for (const token of ['a', 'b', 'c']) expect(await ledger.begin(id, token)).toBeDefined();
    const end = { status: 'failed', attempts: 3, error: { code: 'engine_crashed' } };
    expect(await ledger.begin(id, 'd')).toMatchObject({ id, ...end });
    expect(await ledger.begin(id, 'd')).toBeUndefined();
    expect((await ledger.read(id)).record).toMatchObject(end);
    expect((await totals()).quarantined - before.quarantined).toBe(1);
  });

  it('does not count a run that was handed back', async () => {
    const id = await accept();
    for (let run = 1; run <= 5; run += 1) {
      expect(await ledger.begin(id, `run ${run}`)).toMatchObject({ attempt: run });
      expect(await ledger.handBack(id, `run ${run}`)).toBe('retry');
    }
    expect((await ledger.read(id)).record).toMatchObject({ status: 'queued' });
  });

  it('never runs again a job whose waiting client has seen pieces', async () => {
    const id = await accept({ sync: true, kind: 'complete' });
    await ledger.begin(id, 'a');
    expect(await ledger.append(id, 'a', ['{}'])).toBe('ok');
    expect(await ledger.begin(id, 'b')).toBeUndefined();
    expect((await ledger.read(id)).record).toMatchObject({
      status: 'failed',
      error: { code: 'engine_crashed' },
    });
  });

  it('ends what is past its deadline, running or waiting', async () => {
    const waiting = await accept({ deadlineMs: 30 });
    const running = await accept({ deadlineMs: 30 });
    await ledger.begin(running, 'a');
    await delay(60);
    await ledger.status();
    for (const id of [waiting, running]) {
      expect((await ledger.read(id)).record).toMatchObject({
        status: 'failed',
        error: { code: 'deadline_exceeded' },
      });
    }
  });

  it.each([
    ['a number that is none', 'attempts', 'many'],
    ['a status that there is not', 'status', 'finished'],
    ['a result of another form', 'result', '{"kind":"classify"}'],
    ['a result that is no JSON', 'result', 'x'.repeat(100)],
    ['an error with a code that there is not', 'error', '{"code":"boom","message":""}'],
  ])('refuses to read %s', async (_name, field, value) => {
    const id = await accept();
    await client.hset(`${ledger.prefix}:ledger:job:${id}`, field, value);
    await expect(ledger.read(id)).rejects.toMatchObject({ code: 'internal' });
  });

  it('keeps an answer that its client waits for until the deadline: Redis may be away when it is there', async () => {
    const leftMs = async (deadlineMs: number) => {
      const id = await accept({ sync: true, deadlineMs });
      await ledger.begin(id, 'a');
      await ledger.append(id, 'a', ['{}']);
      await ledger.complete(id, 'a', RESULT);
      const key = (name: string) => `sida:{test}:ledger:${name}:${id}`;
      return Math.min(await client.pttl(key('job')), await client.pttl(key('pieces')));
    };
    expect(await leftMs(300_000)).toBeGreaterThan(290_000);
    expect(await leftMs(1_000)).toBeGreaterThan(50_000);
    expect(await leftMs(300_000)).toBeLessThanOrEqual(300_000);
    expect(await leftMs(70_000.5)).toBeGreaterThan(65_000);
    const stopped = await accept({ sync: true, deadlineMs: 300_000 });
    await ledger.stop(stopped, 'cancelled', { code: 'cancelled', message: 'gone' });
    expect(await client.pttl(`sida:{test}:ledger:job:${stopped}`)).toBeLessThanOrEqual(60_000);
  });

  it('fails a request that grew in Redis without reading it', async () => {
    const id = await accept();
    await client.hset(`${ledger.prefix}:ledger:job:${id}`, 'request', 'x'.repeat(100 << 20));
    const end = { status: 'failed', error: { code: 'internal' } };
    expect(await ledger.begin(id, 'a')).toMatchObject({ id, ...end });
    expect((await ledger.read(id)).record).toMatchObject(end);
  });
});
