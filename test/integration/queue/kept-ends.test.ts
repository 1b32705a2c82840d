// The end of each kept job in Redis is reported once, by the process that ended it.
import { randomUUID } from 'node:crypto';
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import type { KeptEnd } from '../../../src/queue/job-queue.js';
import { QueueWorker } from '../../../src/queue/redis/queue-worker.js';
import { RedisQueue } from '../../../src/queue/redis/redis-queue.js';
import { eventually } from '../../support/eventually.js';
import { job } from '../../support/queue-conformance/harness.js';
import { describeWithRedis, RedisServer } from '../../support/redis.js';
import { MODEL, ScriptedEngine, SETTINGS } from '../../unit/queue/scripted-engine.js';

const OWNER = 'someone';

describeWithRedis('kept jobs in Redis', () => {
  let redis: RedisServer;
  let close = async () => {};
  beforeAll(async () => {
    redis = await RedisServer.start();
  });
  afterEach(() => close());
  afterAll(() => redis.end());

  /** A worker, its server's queue, and the queue of a server without a worker. */
  async function queues(keptDeadlineMs = 60_000) {
    const queueName = randomUUID();
    const engine = new ScriptedEngine();
    const told = { own: [] as KeptEnd[], other: [] as KeptEnd[] };
    const { url } = redis;
    const settings = {
      url,
      queueName: () => queueName,
      bound: 50,
      deadlineMs: 60_000,
      keptDeadlineMs,
      keptMs: 60_000,
      keptJobs: 1000,
    };
    const queueOf = (ends: KeptEnd[]) =>
      new RedisQueue({ ...settings, onKeptEnd: (end) => ends.push(end) }, () => undefined);
    const [own, other] = [queueOf(told.own), queueOf(told.other)];
    const times = { attempts: 2, lockMs: 5_000, stalledMs: 1_000 };
    const onKeptEnd = (end: KeptEnd) => own.keptEnded(end);
    const worker = new QueueWorker(
      engine,
      MODEL,
      { url, queueName, concurrency: 8, ...times, settings: SETTINGS, onKeptEnd },
      pino({ level: 'silent' }),
    );
    close = async () => {
      await worker.close(0);
      await Promise.all([own.close(), other.close()]);
    };
    await eventually(() => own.outage === undefined && other.outage === undefined, 'the connection');
    const keep = async (queue: RedisQueue) => {
      const id = randomUUID();
      await queue.enqueue(id, OWNER, job(id));
      return id;
    };
    const ended = (count: number) =>
      eventually(() => told.own.length + told.other.length >= count, `${count} ends`);
    return { engine, own, other, told, keep, ended };
  }

  it('that are answered or fail are reported by the worker, from whichever server they came', async () => {
    const { engine, own, other, told, keep, ended } = await queues();
    engine.script = (run) => run.finish();
    const [first, second] = [await keep(own), await keep(other)];
    await ended(2);
    engine.script = (run) => run.fail('cannot_run');
    const third = await keep(other);
    await ended(3);
    const about = told.own.map(({ id, status, attempts, error }) => [id, status, attempts, error?.code]);
    expect(about.sort()).toEqual(
      [
        [first, 'completed', 1, undefined],
        [second, 'completed', 1, undefined],
        [third, 'failed', 1, 'cannot_run'],
      ].sort(),
    );
    expect(told.other).toEqual([]);
    expect(own.stats).toMatchObject({ completed: 2, failed: 1, accepted: 1 });
    expect(other.stats).toMatchObject({ completed: 0, failed: 0, accepted: 2 });
    const [{ createdMs, startedMs, finishedMs, result }] = told.own as [KeptEnd];
    expect(result!.kind).toBe('classify');
    expect(startedMs! - createdMs).toBeGreaterThanOrEqual(0);
    expect(finishedMs! - startedMs!).toBeGreaterThanOrEqual(0);
  });

  it('that crash the engine again and again are reported as failed', async () => {
    const { engine, own, told, keep, ended } = await queues();
    const id = await keep(own);
    for (const _ of [1, 2]) {
      await eventually(() => engine.runs.length === 1, 'a run');
      engine.crash();
      await new Promise((resolve) => setTimeout(resolve, 20));
      engine.enter('ready');
    }
    await ended(1);
    expect(told.own).toMatchObject([
      { id, status: 'failed', attempts: 2, error: { code: 'engine_crashed' } },
    ]);
    expect(own.stats.failed).toBe(1);
  });

  it('that are cancelled are reported by the server that cancelled them', async () => {
    const { engine, other, own, told, keep } = await queues();
    const id = await keep(own);
    await eventually(() => engine.runs.length === 1, 'a run');
    await other.cancel(id, OWNER);
    await other.cancel(id, OWNER);
    await eventually(() => engine.runs.length === 0, 'the end of the run');
    expect(told).toMatchObject({ own: [], other: [{ id, status: 'cancelled' }] });
    expect(other.stats.cancelled).toBe(1);
  });

  it('that pass their deadline are reported once, by the worker', async () => {
    const { own, other, told, keep, ended } = await queues(300);
    const ids = [await keep(own), await keep(other)];
    await ended(2);
    const all = [...told.own, ...told.other];
    expect(all.map(({ id }) => id).sort()).toEqual(ids.sort());
    expect(all.map(({ error }) => error!.code)).toEqual(['deadline_exceeded', 'deadline_exceeded']);
    expect(own.stats.expired + other.stats.expired).toBe(2);
  });

  it('are not reported when a client waits for them', async () => {
    const { engine, own, told } = await queues();
    engine.script = (run) => run.finish();
    await own.submit(randomUUID(), job('a'));
    expect([told.own, own.stats.completed]).toEqual([[], 1]);
  });
});
