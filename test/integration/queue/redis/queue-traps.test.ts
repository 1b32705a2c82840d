// What BullMQ and Redis do unless they are told otherwise, and what Redis may lose.
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { QueueEventsProducer } from 'bullmq';
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it, vi } from 'vitest';
import { hasEnded, type JobEvent, type JobQueue, type JobRecord } from '../../../../src/queue/job-queue.js';
import { EVENTS_MS, QueueLink, stopsOf } from '../../../../src/queue/redis/queue-link.js';
import { KEY_PREFIX } from '../../../../src/queue/redis/queue-name.js';
import { QueueWorker } from '../../../../src/queue/redis/queue-worker.js';
import { producerClient } from '../../../../src/queue/redis/redis-client.js';
import { RedisQueue } from '../../../../src/queue/redis/redis-queue.js';
import type { TaskJob } from '../../../../src/tasks/registry.js';
import { eventually } from '../../../support/eventually.js';
import {
  completion,
  delta,
  ending,
  job,
  nameOf,
  newId,
  OWNER,
} from '../../../support/queue-conformance/harness.js';
import { describeWithRedis, RedisServer } from '../../../support/redis.js';
import { TcpProxy } from '../../../support/tcp-proxy.js';
import {
  answerTo,
  MODEL,
  ScriptedEngine,
  type ScriptedRun,
  SETTINGS,
} from '../../../unit/queue/scripted-engine.js';

const LARGE = 1 << 20;
const TOKENIZE: TaskJob = { kind: 'tokenize', inputs: ['a'], addSpecialTokens: true };
const finishLarge = (run: ScriptedRun) => {
  const result = answerTo(run.request);
  if (result.kind === 'tokenize') result.data[0]!.tokens = ['x'.repeat(LARGE)];
  run.finish(result);
};

describeWithRedis('a queue in Redis', () => {
  let redis: RedisServer;
  let engine: ScriptedEngine;
  let name: string;
  const open: (() => Promise<unknown>)[] = [];
  beforeAll(async () => {
    redis = await RedisServer.start();
  });
  afterAll(() => redis.end());
  beforeEach(() => {
    engine = new ScriptedEngine();
    name = randomUUID();
  });
  afterEach(async () => {
    await Promise.all(open.splice(0).map((close) => close()));
  });

  async function server(url = redis.url, keptJobs = 1_000): Promise<RedisQueue> {
    const times = { deadlineMs: 60_000, keptDeadlineMs: 60_000, keptMs: 3_600_000, keptJobs };
    const queue = new RedisQueue({ url, bound: 500, queueName: () => name, ...times }, () => undefined);
    open.push(() => queue.close());
    await eventually(() => queue.outage !== 'Redis cannot be reached', 'the connection');
    return queue;
  }

  async function startWorker(concurrency = 8): Promise<QueueWorker> {
    const options = { url: redis.url, queueName: name, settings: SETTINGS, concurrency, attempts: 3 };
    const times = { lockMs: 5_000, stalledMs: 1_000 };
    const worker = new QueueWorker(engine, MODEL, { ...options, ...times }, pino({ level: 'silent' }));
    open.push(() => worker.close(0));
    return worker;
  }

  async function pair(): Promise<RedisQueue> {
    await startWorker();
    const queue = await server();
    await eventually(() => queue.outage === undefined, 'the worker');
    return queue;
  }

  async function openLink(): Promise<QueueLink> {
    const client = producerClient(redis.url);
    await eventually(() => client.status === 'ready', 'the connection');
    const told = { onError: () => undefined, onTaken: () => undefined };
    const link = new QueueLink(client, { url: redis.url, name, ...told }, Date.now());
    open.push(async () => {
      await link.close();
      client.disconnect();
    });
    return link;
  }

  /** Keys of all jobs but this one. */
  const jobsBut = async (id: string) => {
    const keys = await redis.use((client) => client.keys(`${KEY_PREFIX}:${name}:????????-*`));
    return keys.filter((key) => id === '' || !key.includes(id));
  };
  const ended = async (queue: JobQueue, id: string): Promise<JobRecord> => {
    let record: JobRecord | undefined;
    await eventually(async () => {
      record = await queue.find(id, OWNER);
      return record !== undefined && hasEnded(record);
    }, `the end of ${id}`);
    return record!;
  };
  const keep = async (queue: JobQueue, request: TaskJob = job('kept')) =>
    (await queue.enqueue(newId(), OWNER, request)).record.id;
  const events = () => redis.use((client) => client.xrange(`${KEY_PREFIX}:${name}:events`, '-', '+'));

  it('hears events again after Redis was frozen for 6 s', async () => {
    const queue = await pair();
    engine.script = (run) => run.finish();
    await queue.submit(newId(), job('before'));
    redis.freeze();
    await delay(6_000);
    redis.thaw();
    await eventually(() => queue.outage === undefined, 'the end of the outage');
    const id = newId();
    expect(await ending(queue.submit(id, job('after')))).toBe('no');
  });

  it('keeps answers although jobs whose clients wait are removed at once', async () => {
    const queue = await pair();
    engine.script = (run) => run.finish();
    const id = await keep(queue);
    await ended(queue, id);
    for (let i = 0; i < 20; i += 1) await queue.submit(newId(), job('waited'));
    expect((await queue.find(id, OWNER))?.status).toBe('completed');
    const keys = await redis.use((client) => client.keys(`${KEY_PREFIX}:${name}:????????-*`));
    expect(keys).toEqual([`${KEY_PREFIX}:${name}:${id}`]);
  });

  it('drops answers of the owner who has most, at whichever server', async () => {
    const queues = [await server(redis.url, 6), await server(redis.url, 6)];
    await startWorker();
    engine.script = (run) => run.finish();
    await eventually(() => queues.every(({ outage }) => outage === undefined), 'the worker');
    const key = { key: newId(), digest: 'a' };
    const of = async (owner: string, i: number, idempotency?: typeof key) => {
      const { record } = await queues[i % 2]!.enqueue(newId(), owner, job(`${i}`), idempotency);
      await eventually(async () => {
        const found = await queues[0]!.find(record.id, owner);
        return found === undefined || hasEnded(found);
      }, 'the end');
      return record.id;
    };
    const few = [await of('few', 0, key), await of('few', 1)];
    const many: string[] = [];
    for (let i = 0; i < 12; i += 1) many.push(await of('many', i));
    const kept = async (owner: string, ids: string[]) => {
      const found = await Promise.all(ids.map((id) => queues[0]!.find(id, owner)));
      return found.map((record) => record !== undefined);
    };
    await eventually(async () => (await kept('many', many)).filter(Boolean).length <= 4, 'the drops');
    expect(await kept('few', few)).toEqual([true, true]);
    expect((await kept('many', many)).slice(-4)).toEqual([true, true, true, true]);
    expect((await queues[1]!.enqueue(newId(), 'few', job('0'), key)).created).toBe(false);
  });

  it('has large answers in no event, and removes them when the client has them', async () => {
    const queue = await pair();
    engine.script = finishLarge;
    const { result } = await queue.submit(newId(), TOKENIZE);
    expect(JSON.stringify(result).length).toBeGreaterThan(LARGE);
    const id = await keep(queue, TOKENIZE);
    expect((await ended(queue, id)).result).toEqual(result);
    expect(JSON.stringify(await events()).length).toBeLessThan(16 * 1024);
    await eventually(async () => (await jobsBut(id)).length === 0, 'the removal');
  });

  it('removes large answers that nobody reads after a minute, and drops no kept ones for them', async () => {
    const queue = await pair();
    const link = await openLink();
    const count = async (expected: number) =>
      eventually(async () => (await link.counts()).completed === expected, 'the end');
    engine.script = (run) => run.finish();
    const id = await keep(queue);
    await ended(queue, id);
    engine.script = () => undefined;
    void ending(queue.submit(newId(), TOKENIZE));
    await eventually(() => engine.runs.length === 1, 'the run');
    await queue.close();
    finishLarge(engine.runs[0]!);
    await count(2);
    await link.dropBeyond(1);
    await link.tidy(3_600_000, Date.now() + EVENTS_MS - 10_000);
    await count(2);
    await link.tidy(3_600_000, Date.now() + EVENTS_MS + 10_000);
    expect(await jobsBut(id)).toEqual([]);
    expect(await link.find(id)).toBeDefined();
  });

  it('gives 503 when a large answer cannot be read, and removes it', async () => {
    const queue = await pair();
    engine.script = finishLarge;
    const row = vi.spyOn(QueueLink.prototype, 'row').mockRejectedValue(new Error('Command timed out'));
    try {
      expect(await ending(queue.submit(newId(), TOKENIZE))).toBe('not_ready');
    } finally {
      row.mockRestore();
    }
    await eventually(async () => (await jobsBut('')).length === 0, 'the removal');
  });

  it('reads a large answer whose event was trimmed before its server heard it', async () => {
    const proxy = await TcpProxy.to(redis.port);
    open.push(() => proxy.close());
    await startWorker();
    const queue = await server(`redis://127.0.0.1:${proxy.port}`);
    await eventually(() => queue.outage === undefined, 'the worker');
    const answer = queue.submit(newId(), TOKENIZE);
    await eventually(() => engine.runs.length === 1, 'the run');
    proxy.silence();
    finishLarge(engine.runs[0]!);
    const key = `${KEY_PREFIX}:${name}`;
    const completed = () => redis.use((client) => client.zcard(`${key}:completed`));
    await eventually(async () => (await completed()) === 1, 'the end');
    await redis.use((client) => client.xtrim(`${key}:events`, 'MAXLEN', 0));
    expect(JSON.stringify((await answer).result).length).toBeGreaterThan(LARGE);
    await eventually(async () => (await completed()) === 0, 'the removal');
  });

  it('removes a large request when its job has ended', async () => {
    const queue = await pair();
    engine.script = (run) => run.finish();
    const id = await keep(queue, job('x'.repeat(10_000)));
    await ended(queue, id);
    const data = () => redis.use((client) => client.hget(`${KEY_PREFIX}:${name}:${id}`, 'data'));
    await eventually(async () => (await data())!.length < 1_000, 'the removal');
    expect((await queue.find(id, OWNER))?.status).toBe('completed');
  });

  it('removes events, which carry answers, after a minute', async () => {
    const queue = await pair();
    engine.script = (run) => run.finish();
    await queue.submit(newId(), job('waited'));
    const link = await openLink();
    await link.tidy(60_000, Date.now() + EVENTS_MS - 10_000);
    expect(JSON.stringify(await events())).toContain('returnvalue');
    await link.tidy(60_000, Date.now() + EVENTS_MS + 10_000);
    expect(JSON.stringify(await events())).not.toContain('returnvalue');
  });

  it('leaves Redis in peace while it is full, and goes on when there is room', async () => {
    const queue = await pair();
    engine.script = (run) => run.finish();
    await queue.submit(newId(), job('before'));
    await redis.use((client) => client.config('SET', 'maxmemory', '1mb'));
    const calls = () =>
      redis.use(async (client) =>
        Number(/errorstat_OOM:count=(\d+)/.exec(await client.info('errorstats'))?.[1] ?? 0),
      );
    await delay(1_000);
    const before = await calls();
    await delay(3_000);
    expect((await calls()) - before).toBeLessThan(60);
    await redis.use((client) => client.config('SET', 'maxmemory', '0'));
    expect(await ending(queue.submit(newId(), job('after')))).toBe('no');
  });

  it('removes a job whose client left while the job was being added', async () => {
    const queue = await server();
    await eventually(() => queue.outage === 'No worker serves the model', 'the connection');
    const abort = new AbortController();
    const left = ending(queue.submit(newId(), job('left'), { signal: abort.signal }));
    abort.abort();
    expect(await left).toBe('cancelled');
    await eventually(() => queue.stats.accepted === 1, 'the reply');
    const jobs = () => redis.use((client) => client.keys(`${KEY_PREFIX}:${name}:????????-*`));
    await eventually(async () => (await jobs()).length === 0, 'the removal');
  });

  it('ends a job whose stop came first', async () => {
    const queue = await pair();
    const id = newId();
    const client = { url: redis.url };
    const stops = new QueueEventsProducer(stopsOf(name), { connection: client, prefix: KEY_PREFIX });
    await stops.publishEvent({ eventName: 'stop', id });
    await stops.close();
    await delay(100);
    expect(await ending(queue.submit(id, job('stopped')))).toBe('cancelled');
    expect(engine.started).toEqual([]);
  });

  it('lets a quiet owner pass a flood at another server', async () => {
    const [first, second] = [await server(), await server()];
    await startWorker(1);
    await eventually(() => [first, second].every(({ outage }) => outage === undefined), 'the worker');
    const began: string[] = [];
    engine.script = (run) => void began.push(nameOf(run.request));
    const flood = Array.from({ length: 100 }, (_, i) =>
      first.submit(newId(), job(`flood ${i}`), { owner: 'noisy' }),
    );
    await eventually(async () => began.length === 1 && first.stats.waiting === 99, 'the flood');
    const quiet = second.submit(newId(), job('quiet'), { owner: 'quiet' });
    await delay(50);
    engine.script = (run) => {
      began.push(nameOf(run.request));
      run.finish();
    };
    engine.runs[0]!.finish();
    await quiet;
    expect(began.indexOf('quiet')).toBeLessThan(4);
    await Promise.all(flood);
  });

  it('tells of the end of a job whose events were trimmed before its server heard them', async () => {
    const proxy = await TcpProxy.to(redis.port);
    open.push(() => proxy.close());
    await startWorker();
    const queue = await server(`redis://127.0.0.1:${proxy.port}`);
    await eventually(() => queue.outage === undefined, 'the worker');
    const id = await keep(queue, completion('a'));
    await eventually(() => engine.runs.length === 1, 'the run');
    const told: JobEvent[] = [];
    await queue.watch(id, OWNER, (event) => told.push(event));
    proxy.silence();
    engine.runs[0]!.options.onDelta!(delta('unheard'));
    engine.runs[0]!.finish();
    const key = `${KEY_PREFIX}:${name}`;
    await eventually(
      () => redis.use(async (client) => (await client.zcard(`${key}:completed`)) === 1),
      'the end',
    );
    await redis.use((client) => client.xtrim(`${key}:events`, 'MAXLEN', 0));
    await eventually(
      () => told.some((event) => event.type === 'status' && hasEnded(event.record)),
      'the end',
    );
    expect(told.at(-1)).toMatchObject({ type: 'status', record: { status: 'completed' } });
  });

  it('closes although Redis has gone', async () => {
    const own = await RedisServer.start();
    const queue = await server(own.url);
    await eventually(() => queue.outage === 'No worker serves the model', 'the connection');
    await own.down('SIGKILL');
    await eventually(() => queue.outage === 'Redis cannot be reached', 'the outage');
    await queue.close();
    await own.end();
  });

  it('gives its clients an error within 5 s when Redis has lost their jobs', async () => {
    const queue = await server();
    await eventually(() => queue.outage === 'No worker serves the model', 'the connection');
    const id = await keep(queue);
    const told: JobEvent[] = [];
    await queue.watch(id, OWNER, (event) => told.push(event));
    const waited = ending(queue.submit(newId(), job('waited')));
    await eventually(() => queue.stats.waiting === 2, 'the jobs');
    await redis.use((client) => client.flushall());
    const lost = performance.now();
    expect(await waited).toBe('not_ready');
    await eventually(() => told.length > 0, 'the end of the watch');
    expect(performance.now() - lost).toBeLessThan(6_000);
    expect(told).toEqual([{ type: 'lost' }]);
    expect([queue.stats.kept.watching, await queue.find(id, OWNER)]).toEqual([0, undefined]);
  });
});
