// Workers that pass jobs on to each other: real Redis and BullMQ, scripted engines.
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { encodeSummary } from '../../../src/placement/worker-summary.js';
import { BullmqQueue } from '../../../src/queue/bullmq-queue.js';
import type { JobOutcome } from '../../../src/queue/job-queue.js';
import { QueueWorker } from '../../../src/queue/queue-worker.js';
import { eventually } from '../../support/eventually.js';
import { job } from '../../support/queue-conformance/harness.js';
import { describeWithRedis, RedisServer } from '../../support/redis.js';
import { MODEL, ScriptedEngine, type ScriptedRun } from './scripted-engine.js';

const LIMITS = { attempts: 3, keptMs: 60_000, keptBytes: 1 << 26, keptJobs: 1000 };
/** Jobs need the first four of eight experts. */
const NEED = Float64Array.from([1, 1, 1, 1, 0, 0, 0, 0]);
const [ALL, NONE] = [0b1111, 0];

class Holder extends ScriptedEngine {
  need: Float64Array | null = NEED;
  readonly resident: Uint8Array;

  constructor(holds: number) {
    super();
    this.resident = Uint8Array.of(holds);
    this.onControl = () => ({ kind: 'need', need: this.need });
    this.script = (run: ScriptedRun) => run.finish();
  }
}

describeWithRedis('workers that share a queue', () => {
  let redis: RedisServer;
  const closing: (() => Promise<unknown>)[] = [];
  beforeAll(async () => {
    redis = await RedisServer.start();
  });
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });
  afterAll(() => redis.end());

  async function fleet(
    holds: number[],
    { placement = 'experts' as 'experts' | 'any', concurrency = 8 } = {},
  ) {
    const queueName = `{${randomUUID()}}`;
    const prefix = `sida:${queueName}:ledger`;
    const engines = holds.map((own) => new Holder(own));
    const times = { lockDurationMs: 2_000, stalledIntervalMs: 500, maxStalledCount: 2 };
    const settings = { url: redis.url, queueName, concurrency, placement, ...times, ...LIMITS };
    const workers = engines.map(
      (engine) => new QueueWorker(engine, MODEL, settings, pino({ level: 'silent' })),
    );
    const queue = new BullmqQueue(
      {
        url: redis.url,
        bound: 200,
        deadlineMs: 60_000,
        keptDeadlineMs: 60_000,
        queueName: () => queueName,
        ...LIMITS,
      },
      () => undefined,
    );
    closing.push(async () => {
      await Promise.all(workers.map((worker) => worker.close(0)));
      await queue.close();
    });
    await eventually(() => queue.outage === undefined, 'the connection');
    /** Waits until so many workers know of each other. */
    const known = (count: number) =>
      redis
        .use((client) =>
          eventually(async () => (await client.hlen(`${prefix}:summaries`)) === count, 'the summaries'),
        )
        .then(() => delay(600));
    if (placement === 'experts') await known(holds.length);
    /** One after the other. */
    const ask = async (count: number) => {
      const outcomes: JobOutcome[] = [];
      for (let i = 0; i < count; i += 1) outcomes.push(await queue.submit(randomUUID(), job(`job ${i}`)));
      return outcomes;
    };
    const ran = () => engines.map(({ started }) => started.length);
    return { queue, engines, workers, ask, ran, known, prefix };
  }

  /** Says in the name of a worker that it holds all, and hears what it is offered. */
  async function phantom(prefix: string, answer: 'listens' | 'is gone', capacity = 8) {
    const summary = { worker: 'phantom', experts: 8, resident: Uint8Array.of(ALL), load: 0, capacity };
    const text = encodeSummary({ ...summary, publishedMs: 0 });
    const offers: string[] = [];
    const { url } = redis;
    const { Redis } = await import('ioredis');
    const [client, subscriber] = [new Redis(url), new Redis(url)];
    const tell = async () => {
      const [seconds, micros] = await client.time();
      const now = Number(seconds) * 1000 + Math.floor(Number(micros) / 1000);
      await client.hset(`${prefix}:summaries`, 'phantom', `${now}:${text}`);
    };
    if (answer === 'listens') await subscriber.subscribe(`${prefix}:inbox:phantom`);
    subscriber.on('message', (_channel, message: string) => offers.push(message));
    await tell();
    const timer = setInterval(() => void tell().catch(() => undefined), 200);
    closing.push(async () => {
      clearInterval(timer);
      client.disconnect();
      subscriber.disconnect();
    });
    return { offers };
  }

  it('run each job where its experts are, whoever it was given to', { retry: 2 }, async () => {
    const { ask, ran, workers } = await fleet([NONE, ALL]);
    const outcomes = await ask(40);
    // What a worker believes of another's load is some milliseconds old, and now and then one job is kept for it.
    expect(ran()[1]).toBeGreaterThanOrEqual(34);
    expect(outcomes.every(({ attempts }) => attempts === 1)).toBe(true);
    const [cold, warm] = workers.map(({ placement }) => placement!);
    expect(cold).toMatchObject({ passed: warm!.received, returned: 0, received: 0 });
    expect(cold!.passed).toBeGreaterThan(0);
    expect(ran()).toEqual([cold!.here, warm!.here + warm!.received]);
  });

  it('run each job where it comes up, where they were told to', async () => {
    const { ask, ran, workers, prefix } = await fleet([NONE, ALL], { placement: 'any' });
    await ask(10);
    expect(ran()[0]! + ran()[1]!).toBe(10);
    expect(workers[0]!.placement).toBeUndefined();
    expect(await redis.use((client) => client.exists(`${prefix}:summaries`))).toBe(0);
  });

  it('keep jobs whose experts nobody can name', async () => {
    const { ask, engines, workers } = await fleet([NONE, ALL]);
    engines[0]!.need = null;
    engines[1]!.need = null;
    await ask(10);
    expect(workers.map(({ placement }) => placement!.passed)).toEqual([0, 0]);
  });

  // Offers that ran out count no more: a machine so slow that this happens gets another try.
  it('do not heap jobs on the one that holds the experts', { retry: 2 }, async () => {
    const { queue, engines, known, prefix } = await fleet([NONE], { concurrency: 64 });
    const { offers } = await phantom(prefix, 'listens', 64);
    await known(2);
    const engine = engines[0]!;
    engine.script = undefined;
    const all = Array.from({ length: 30 }, (_, i) => queue.submit(randomUUID(), job(`job ${i}`)));
    await eventually(() => engine.runs.length === 30, 'thirty runs');
    for (const run of [...engine.runs]) run.finish();
    expect(await Promise.all(all)).toHaveLength(30);
    const offered = offers.filter((offer) => offer.startsWith('offer:')).length;
    expect(offered).toBeGreaterThan(0);
    // It may hold 1.25 times its part of thirty, and one.
    expect(offered).toBeLessThanOrEqual(1.25 * 15 + 1);
  });

  it('run a job at once that was offered to a worker that is gone', async () => {
    const { ask, ran, known, workers, prefix } = await fleet([NONE]);
    await phantom(prefix, 'is gone');
    await known(2);
    const outcomes = await ask(3);
    expect([ran(), outcomes.map(({ attempts }) => attempts)]).toEqual([[3], [1, 1, 1]]);
    expect(workers[0]!.placement).toMatchObject({ returned: 3, passed: 0 });
  });

  it('run a job that was offered to a worker that does not answer, in the same run', async () => {
    const { ask, ran, known, workers, prefix } = await fleet([NONE]);
    const { offers } = await phantom(prefix, 'listens');
    await known(2);
    const outcomes = await ask(2);
    expect([ran(), outcomes.map(({ attempts }) => attempts)]).toEqual([[2], [1, 1]]);
    expect(workers[0]!.placement).toMatchObject({ returned: 2, passed: 0 });
    // The offer, and that it has ended.
    expect(offers.filter((offer) => offer.startsWith('offer:'))).toHaveLength(2);
  });

  it('offer again to a worker that an offer did not reach, because Redis refused it', async () => {
    const { queue, ran, known, prefix } = await fleet([NONE]);
    const { offers } = await phantom(prefix, 'listens', 1);
    await known(2);
    const refused = randomUUID();
    // No hash: the script that would write the offer there fails.
    await redis.use((client) => client.set(`${prefix}:pass:${refused}`, 'something else'));
    expect(await queue.submit(refused, job('refused'))).toMatchObject({ attempts: 1 });
    expect([ran(), offers]).toEqual([[1], []]);
    const next = randomUUID();
    await queue.submit(next, job('next'));
    expect(offers[0]).toBe(`offer:${next}`);
  });

  it('renew the locks of jobs that were passed on, for as long as they run', async () => {
    const { queue, engines } = await fleet([NONE, ALL]);
    engines[1]!.script = undefined;
    const first = Array.from({ length: 4 }, (_, i) => queue.submit(randomUUID(), job(`job ${i}`)));
    await eventually(() => engines[1]!.runs.length > 0, 'a run');
    // Longer than a lock and the look for lost ones.
    await delay(4_000);
    for (const run of [...engines[1]!.runs]) run.finish();
    const outcomes = await Promise.all(first);
    expect(outcomes.map(({ attempts }) => attempts)).toEqual([1, 1, 1, 1]);
    expect(queue.stats.fenced).toBe(0);
  });

  it('run a job again whose engine crashed after it was passed on', async () => {
    const { queue, engines } = await fleet([NONE, ALL]);
    engines[1]!.script = undefined;
    const answers = Array.from({ length: 4 }, (_, i) => queue.submit(randomUUID(), job(`job ${i}`)));
    await eventually(() => engines[1]!.runs.length >= 2, 'runs');
    engines[1]!.script = (run) => run.finish();
    engines[1]!.crash();
    await delay(5);
    engines[1]!.enter('ready');
    const outcomes = await Promise.all(answers);
    expect(
      outcomes
        .map(({ attempts }) => attempts)
        .sort()
        .at(-1),
    ).toBe(2);
    expect(queue.stats.completed).toBe(4);
  });

  it('hand back what they took over when they leave', async () => {
    const { queue, engines, workers } = await fleet([NONE, ALL]);
    engines[1]!.script = undefined;
    const answers = Array.from({ length: 3 }, (_, i) => queue.submit(randomUUID(), job(`job ${i}`)));
    await eventually(() => engines[1]!.runs.length > 0, 'a run');
    await workers[1]!.close(0);
    expect((await Promise.all(answers)).length).toBe(3);
    expect(engines[1]!.runs).toEqual([]);
  });

  it('end a job that was cancelled after it was passed on', async () => {
    const { queue, engines } = await fleet([NONE, ALL]);
    for (const engine of engines) engine.script = undefined;
    const ids = [randomUUID(), randomUUID(), randomUUID()];
    for (const id of ids) await queue.enqueue(id, 'someone', job(id));
    await eventually(() => engines[1]!.runs.length > 0, 'a run');
    await eventually(() => engines[0]!.runs.length + engines[1]!.runs.length === 3, 'three runs');
    for (const id of ids) expect((await queue.cancel(id, 'someone'))!.status).toBe('cancelled');
    await eventually(() => engines[1]!.runs.length === 0, 'the end of the runs');
  });
});
