// The end of each kept job in Redis is reported once, by the process that ended it.
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest';
import type { JobEvent, KeptEnd } from '../../../../src/queue/job-queue.js';
import { QueueLink } from '../../../../src/queue/redis/queue-link.js';
import type { RedisQueue } from '../../../../src/queue/redis/redis-queue.js';
import { eventually } from '../../../support/eventually.js';
import { job, OWNER } from '../../../support/queue-conformance/harness.js';
import { describeWithRedis, RedisServer } from '../../../support/redis.js';
import { openRedisQueues } from '../../../support/redis-queue.js';

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
    const opened = openRedisQueues(redis.url, { keptDeadlineMs }, { attempts: 2 });
    close = opened.close;
    const told = { own: [] as KeptEnd[], other: [] as KeptEnd[] };
    opened.work((end) => own.keptEnded(end));
    const own = await opened.open({ onKeptEnd: (end) => told.own.push(end) });
    const other = await opened.open({ onKeptEnd: (end) => told.other.push(end) });
    const ended = (count: number) =>
      eventually(() => told.own.length + told.other.length >= count, `${count} ends`);
    return { engine: opened.engine, own, other, told, ended };
  }

  const keep = async (queue: RedisQueue) => {
    const { record } = await queue.enqueue(randomUUID(), OWNER, job('kept'));
    return record.id;
  };

  it('that are answered or fail are reported by the worker, from whichever server they came', async () => {
    const { engine, own, other, told, ended } = await queues();
    engine.script = (run) => run.finish();
    const [first, second] = [await keep(own), await keep(other)];
    await ended(2);
    engine.script = (run) => run.fail('cannot_run');
    const third = await keep(other);
    await ended(3);
    const about = told.own.map(({ id, status, attempts, error }) => [id, status, attempts, error?.code]);
    const expected = [
      [first, 'completed', 1, undefined],
      [second, 'completed', 1, undefined],
      [third, 'failed', 1, 'cannot_run'],
    ];
    expect(about.sort()).toEqual(expected.sort());
    expect(told.other).toEqual([]);
    expect(own.stats).toMatchObject({ completed: 2, failed: 1, accepted: 1 });
    expect(other.stats).toMatchObject({ completed: 0, failed: 0, accepted: 2 });
    const [{ createdMs, startedMs, finishedMs, result }] = told.own as [KeptEnd];
    expect(result!.kind).toBe('classify');
    expect(startedMs! - createdMs).toBeGreaterThanOrEqual(0);
    expect(finishedMs! - startedMs!).toBeGreaterThanOrEqual(0);
  });

  it('that crash the engine again and again are reported as failed', async () => {
    const { engine, own, told, ended } = await queues();
    const id = await keep(own);
    for (const _ of [1, 2]) {
      await eventually(() => engine.runs.length === 1, 'a run');
      engine.crash();
      await delay(20);
      engine.enter('ready');
    }
    await ended(1);
    const end = { id, status: 'failed', attempts: 2, error: { code: 'engine_crashed' } };
    expect(told.own).toMatchObject([end]);
    expect(own.stats.failed).toBe(1);
  });

  it('that are cancelled are reported by the server that cancelled them', async () => {
    const { engine, other, own, told } = await queues();
    const id = await keep(own);
    await eventually(() => engine.runs.length === 1, 'a run');
    await other.cancel(id, OWNER);
    await other.cancel(id, OWNER);
    await eventually(() => engine.runs.length === 0, 'the end of the run');
    expect(told).toMatchObject({ own: [], other: [{ id, status: 'cancelled' }] });
    expect(other.stats.cancelled).toBe(1);
  });

  it('that end while they are cancelled have one end, which stays', async () => {
    const { engine, own, told } = await queues();
    for (let i = 0; i < 12; i += 1) {
      const id = await keep(own);
      await eventually(() => engine.runs.length === 1, 'a run');
      const answer = own.cancel(id, OWNER);
      const began = performance.now();
      while (performance.now() - began < (i % 6) * 0.5) await new Promise(setImmediate);
      engine.runs[0]?.finish();
      const { status } = (await answer)!;
      const ends = () => told.own.filter((end) => end.id === id).map((end) => end.status);
      await eventually(() => ends().length > 0 && engine.runs.length === 0, 'the end');
      await delay(20);
      expect([(await own.find(id, OWNER))?.status, ends()]).toEqual([status, [status]]);
    }
  });

  it('that end before their worker hears of the cancel stay cancelled', async () => {
    const { engine, own, told } = await queues();
    const id = await keep(own);
    await eventually(() => engine.runs.length === 1, 'a run');
    const { stop } = QueueLink.prototype;
    const held = vi.spyOn(QueueLink.prototype, 'stop').mockImplementationOnce(async function (
      this: QueueLink,
    ) {
      engine.runs[0]!.finish();
      await eventually(async () => (await this.counts()).completed === 1, 'the end');
      await stop.call(this, id);
    });
    expect((await own.cancel(id, OWNER))?.status).toBe('cancelled');
    held.mockRestore();
    // The worker looks at the mark twice.
    await delay(2_000);
    expect((await own.find(id, OWNER))?.status).toBe('cancelled');
    expect(told.own.map(({ status }) => status)).toEqual(['cancelled']);
  });

  it('that two servers cancel at once have one end', async () => {
    const { engine, own, other, told } = await queues();
    for (let i = 0; i < 20; i += 1) {
      const id = await keep(own);
      await eventually(() => engine.runs.length === 1, 'a run');
      const records = await Promise.all([own.cancel(id, OWNER), other.cancel(id, OWNER)]);
      expect(records.map((record) => record?.status)).toEqual(['cancelled', 'cancelled']);
      await eventually(() => engine.runs.length === 0, 'the end of the run');
      expect([...told.own, ...told.other].filter((end) => end.id === id)).toHaveLength(1);
    }
  });

  it('that pass their deadline are reported once, by the worker', async () => {
    const { own, other, told, ended } = await queues(300);
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

  it('that Redis has lost end their watches, and wait no more', async () => {
    const opened = openRedisQueues(redis.url);
    close = opened.close;
    const queue = await opened.open({}, 'No worker serves the model');
    const id = await keep(queue);
    const waited = queue.submit(randomUUID(), job('a')).catch((error: unknown) => error);
    const events: JobEvent[] = [];
    await queue.watch(id, OWNER, (event) => events.push(event));
    await eventually(() => queue.stats.waiting === 2, 'the jobs');
    await redis.use((client) => client.flushdb());
    await eventually(() => events.length > 0, 'the end of the watch');
    expect(events).toEqual([{ type: 'lost' }]);
    expect(await waited).toMatchObject({ code: 'not_ready' });
    await eventually(() => queue.stats.waiting === 0, 'the next look');
    expect(queue.stats.kept.watching).toBe(0);
    await keep(queue);
    await eventually(() => queue.stats.waiting === 1, 'the next look');
  });
});
