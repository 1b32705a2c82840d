#!/usr/bin/env node
/**
 * What the queue in Redis costs: an engine that answers at once, a server's queue and a worker in this process, a
 * redis-server of the script's own on loopback. Needs redis-server; build with `npm run build:bench`.
 *   node bench/scripts/queue/redis-queue.mjs [--jobs 2000] [--repeats 5] [--deaths 5]
 * Prints round trips, commands and processor time of Redis for each job, the latency of one job at a time, the jobs a
 * second with 64 clients, and how long after the death of its worker a job runs again. One JSON line.
 */
import { fork, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Redis } from 'ioredis';
import { pino } from 'pino';
import { QueueWorker } from '../../../dist/queue/redis/queue-worker.js';
import { RedisQueue } from '../../../dist/queue/redis/redis-queue.js';
import { median } from '../../dist/support/statistics.js';

const QUEUE = '{bench}';
const LIMITS = { attempts: 3, keptMs: 60_000, keptBytes: 1 << 26, keptJobs: 10_000 };
/** Short times, and the defaults of `sida serve`. */
const LEASES = [
  { leaseMs: 5_000, lookMs: 2_000 },
  { leaseMs: 30_000, lookMs: 5_000 },
];
const REQUEST = { kind: 'classify', inputs: ['a fine film'], labels: ['negative', 'positive'] };
const RESULT = {
  kind: 'classify',
  data: [{ label: 'positive', scores: { negative: 0.25, positive: 0.75 } }],
  promptTokens: 9,
  completionTokens: 0,
  experts: {},
  timing: { tokenizeMs: 0, queueMs: 0, inferenceMs: 0 },
};
const MODEL = { name: 'bench', fingerprint: 'f' };

function engineOf(run) {
  return { state: { phase: 'ready', detail: 'ready' }, onState: () => () => undefined, run };
}

function workerOf(url, run, lease, concurrency = 64) {
  const settings = { activations: 'f32', device: 'cpu', routing: 'exact', routingK: undefined };
  const options = { url, queueName: QUEUE, settings, concurrency, ...lease, ...LIMITS };
  return new QueueWorker(engineOf(run), MODEL, options, pino({ level: 'silent' }));
}

function queueOf(url) {
  const limits = { bound: 512, deadlineMs: 120_000, keptDeadlineMs: 120_000, ...LIMITS };
  return new RedisQueue({ url, queueName: () => QUEUE, ...limits }, () => undefined);
}

async function redisServer() {
  const port = await new Promise((resolve) => {
    const probe = createServer().listen(0, '127.0.0.1', () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
  const directory = mkdtempSync(join(tmpdir(), 'sida-bench-redis-'));
  const flags = [
    '--port',
    port,
    '--bind',
    '127.0.0.1',
    '--dir',
    directory,
    '--save',
    '',
    '--appendonly',
    'yes',
  ];
  const child = spawn('redis-server', flags.map(String), { stdio: 'ignore' });
  const client = new Redis(`redis://127.0.0.1:${port}`, { retryStrategy: () => 25 });
  client.on('error', () => undefined);
  await client.ping();
  const end = async () => {
    client.disconnect();
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGKILL');
    await ended;
    rmSync(directory, { recursive: true, force: true });
  };
  return { url: `redis://127.0.0.1:${port}`, client, end };
}

const until = async (holds) => {
  while (!(await holds())) await delay(5);
};

const number = (text, name) => Number(new RegExp(`${name}:([0-9.]+)`).exec(text)[1]);

async function figuresOf(client) {
  const info = await client.info('all');
  const calls = [...info.matchAll(/^cmdstat_[^:]+:calls=(\d+)/gm)].reduce((sum, [, n]) => sum + Number(n), 0);
  const cpuMs = 1000 * (number(info, 'used_cpu_sys') + number(info, 'used_cpu_user'));
  return { calls, cpuMs };
}

/** Commands that clients sent while `work` ran, those inside scripts not counted. */
async function roundTrips(client, work) {
  const own = client.duplicate();
  const monitor = await own.monitor();
  let sent = 0;
  monitor.on('monitor', (_time, _args, source) => {
    if (source !== 'lua') sent += 1;
  });
  await work();
  await delay(50);
  monitor.disconnect();
  own.disconnect();
  return sent;
}

const round = (value) => Number(value.toPrecision(3));

async function costs(jobs) {
  const redis = await redisServer();
  const worker = workerOf(redis.url, async () => RESULT, LEASES[1]);
  const queue = queueOf(redis.url);
  await until(() => queue.outage === undefined);
  const ask = () => queue.submit(randomUUID(), REQUEST);
  const clients = async (count, all) => {
    let left = all;
    const client = async () => {
      while (left-- > 0) await ask();
    };
    await Promise.all(Array.from({ length: count }, client));
  };
  await clients(64, jobs);
  const trips = await roundTrips(redis.client, () => clients(1, 200));
  const before = await figuresOf(redis.client);
  const times = [];
  for (let i = 0; i < jobs / 4; i += 1) {
    const began = performance.now();
    await ask();
    times.push(performance.now() - began);
  }
  const between = await figuresOf(redis.client);
  const began = performance.now();
  await clients(64, jobs);
  const seconds = (performance.now() - began) / 1000;
  const after = await figuresOf(redis.client);
  const result = {
    round_trips: trips / 200,
    commands: (between.calls - before.calls) / (jobs / 4),
    redis_cpu_ms: (between.cpuMs - before.cpuMs) / (jobs / 4),
    redis_cpu_ms_64: (after.cpuMs - between.cpuMs) / jobs,
    p50_ms: median(times),
    jobs_s: jobs / seconds,
  };
  await worker.close(0);
  await queue.close();
  await redis.end();
  return result;
}

/** Seconds from the death of a worker (kill -9) to the next run of its job. */
async function takeOver(lease) {
  const redis = await redisServer();
  const first = fork(fileURLToPath(import.meta.url), ['--worker', JSON.stringify({ url: redis.url, lease })]);
  await new Promise((resolve) => first.once('message', resolve));
  const queue = queueOf(redis.url);
  await until(() => queue.outage === undefined);
  const taken = new Promise((resolve) => first.once('message', resolve));
  const answer = queue.submit(randomUUID(), REQUEST);
  await taken;
  const second = workerOf(redis.url, async () => RESULT, lease);
  // Leases are renewed meanwhile.
  await delay(lease.leaseMs * (0.6 + 0.4 * Math.random()));
  const killed = performance.now();
  first.kill('SIGKILL');
  const { attempts } = await answer;
  const seconds = (performance.now() - killed) / 1000;
  if (attempts !== 2) throw new Error(`the job ran ${attempts} times`);
  await second.close(0);
  await queue.close();
  await redis.end();
  return seconds;
}

const { values } = parseArgs({
  options: {
    jobs: { type: 'string', default: '2000' },
    repeats: { type: 'string', default: '5' },
    deaths: { type: 'string', default: '5' },
    worker: { type: 'string' },
  },
});

if (values.worker === undefined) {
  const runs = [];
  for (let i = 0; i < Number(values.repeats); i += 1) runs.push(await costs(Number(values.jobs)));
  const of = (name) => round(median(runs.map((run) => run[name])));
  const result = Object.fromEntries(Object.keys(runs[0] ?? {}).map((name) => [name, of(name)]));
  const deaths = Array.from({ length: Number(values.deaths) });
  for (const lease of deaths.length > 0 ? LEASES : []) {
    const times = await Promise.all(deaths.map(() => takeOver(lease)));
    const name = `take_over_s_${lease.leaseMs / 1000}_${lease.lookMs / 1000}`;
    result[name] = { median: round(median(times)), most: round(Math.max(...times)) };
  }
  console.log(JSON.stringify(result));
} else {
  // A worker that takes a job and never ends it.
  const { url, lease } = JSON.parse(values.worker);
  workerOf(
    url,
    () => {
      process.send('taken');
      return new Promise(() => undefined);
    },
    lease,
  );
  process.send('started');
}
