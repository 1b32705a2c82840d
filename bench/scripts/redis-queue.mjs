// What the queue in Redis costs a job: an engine that answers at once, a server's queue and a worker in this process, a
// redis-server of the script's own on loopback. Then what more workers bring: processes whose engines wait instead of
// computing, as those of other machines do for this one. Then how long a quiet key waits beside a flood of another.
import { fork, spawn, spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { cpus } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';
import { pino } from 'pino';
import { QueueWorker } from '../../dist/queue/redis/queue-worker.js';
import { RedisQueue } from '../../dist/queue/redis/redis-queue.js';
import { scriptProvenance } from '../dist/support/provenance.js';
import { optionsOf, scratchDirectory, words, writeResult } from '../dist/support/script.js';
import { freePort } from '../dist/support/serve-process.js';
import { median, medians } from '../dist/support/statistics.js';

const HELP = `node bench/scripts/redis-queue.mjs [--jobs 2000] [--repeats 5] [--quick (--jobs 200 --repeats 1)]
Needs redis-server. Commands and processor time of Redis for each job, the latency of one job at a time,
and the jobs a second with 64 clients. Then jobs a second with 1, 2 and 4 workers in processes of their own, each with
passes of up to 4 jobs and 20 ms, which leave the cores free; the workers share one core, server and Redis another.
Then the wait of a key that asks for one job at a time beside 400 jobs of another key. The result is
bench/results/redis-queue.json.`;

const [WORKER, url] = process.argv.slice(2);
const { jobs, repeats, quick } = WORKER === 'worker' ? {} : optionsOf(HELP);
const CLIENTS = 64;
const FLOOD = 400;
const QUEUE = 'bench';
const REQUEST = { kind: 'classify', inputs: ['a fine film'], labels: ['negative', 'positive'] };
const RESULT = {
  kind: 'classify',
  data: [{ label: 'positive', scores: { negative: 0.25, positive: 0.75 } }],
  promptTokens: 9,
  completionTokens: 0,
  experts: {},
  timing: { tokenizeMs: 0, queueMs: 0, inferenceMs: 0 },
};

const PASS = { jobs: 4, ms: 20 };

const CORES = cpus().length;
/** Keeps a process on these cores, in the words of taskset. */
const pin = (pid, cores) => spawnSync('taskset', ['-acp', cores, String(pid)]);
const [FIRST, SECOND, ALL] = ['0', String(1 % CORES), `0-${CORES - 1}`];

/** A worker whose engine answers by `run`. */
function workerOf(url, run, concurrency = CLIENTS) {
  const engine = { state: { phase: 'ready', detail: 'ready' }, onState: () => () => undefined, run };
  const settings = { activations: 'f32', device: 'cpu', routing: 'exact', routingK: null };
  const limits = { concurrency, attempts: 3, lockMs: 30_000, stalledMs: 5_000 };
  const given = { url, queueName: QUEUE, settings, ...limits };
  return new QueueWorker(engine, { name: 'bench', fingerprint: 'f' }, given, pino({ level: 'silent' }));
}

/** An engine that runs one pass after another, of the jobs that wait then. */
function passes() {
  const waiting = [];
  let running = false;
  const step = async () => {
    running = true;
    while (waiting.length > 0) {
      const batch = waiting.splice(0, PASS.jobs);
      await delay(PASS.ms);
      for (const done of batch) done(RESULT);
    }
    running = false;
  };
  return () =>
    new Promise((resolve) => {
      waiting.push(resolve);
      if (!running) void step();
    });
}

async function redisServer() {
  const port = await freePort();
  const flags = words`--port ${port} --bind 127.0.0.1 --dir ${scratchDirectory()} --save ${''} --appendonly yes`;
  const child = spawn('redis-server', flags, { stdio: 'ignore' });
  const client = new Redis(`redis://127.0.0.1:${port}`, { retryStrategy: () => 25 });
  client.on('error', () => undefined);
  await client.ping();
  const end = async () => {
    client.disconnect();
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGKILL');
    await ended;
  };
  return { url: `redis://127.0.0.1:${port}`, pid: child.pid, client, end };
}

async function figuresOf(client) {
  const info = await client.info('all');
  const figure = (name) => Number(new RegExp(`${name}:([0-9.]+)`).exec(info)[1]);
  const calls = [...info.matchAll(/^cmdstat_[^:]+:calls=(\d+)/gm)].reduce((sum, [, n]) => sum + Number(n), 0);
  return { calls, cpuMs: 1000 * (figure('used_cpu_sys') + figure('used_cpu_user')) };
}

async function queueOf(url) {
  const durations = { deadlineMs: 120_000, keptDeadlineMs: 120_000, keptMs: 60_000 };
  const limits = { bound: 512, keptJobs: 1_000, ...durations };
  const queue = new RedisQueue({ url, queueName: () => QUEUE, ...limits }, () => undefined);
  while (queue.outage !== undefined) await delay(5);
  return queue;
}

/** Milliseconds that each of `all` jobs takes, with `count` clients that ask one at a time. */
async function ask(queue, count, all, owner = 'one') {
  const times = [];
  let left = all;
  const client = async () => {
    while (left-- > 0) {
      const began = performance.now();
      await queue.submit(randomUUID(), REQUEST, { owner });
      times.push(performance.now() - began);
    }
  };
  await Promise.all(Array.from({ length: count }, client));
  return times;
}

async function costs() {
  const redis = await redisServer();
  const worker = workerOf(redis.url, async () => RESULT);
  const queue = await queueOf(redis.url);
  await ask(queue, CLIENTS, jobs);
  const before = await figuresOf(redis.client);
  const p50Ms = median(await ask(queue, 1, jobs / 4));
  const between = await figuresOf(redis.client);
  const began = performance.now();
  await ask(queue, CLIENTS, jobs);
  const seconds = (performance.now() - began) / 1000;
  const after = await figuresOf(redis.client);
  await worker.close(0);
  await queue.close();
  await redis.end();
  return {
    commands: (between.calls - before.calls) / (jobs / 4),
    redisCpuMs: (between.cpuMs - before.cpuMs) / (jobs / 4),
    redisCpuMsOfMany: (after.cpuMs - between.cpuMs) / jobs,
    p50Ms,
    jobsPerSecond: jobs / seconds,
  };
}

/** With `count` workers. At most so many jobs a second could be answered. */
async function replicas(count) {
  const redis = await redisServer();
  for (const pid of [process.pid, redis.pid]) pin(pid, FIRST);
  const own = fileURLToPath(import.meta.url);
  const workers = Array.from({ length: count }, () => fork(own, ['worker', redis.url]));
  await Promise.all(workers.map((worker) => new Promise((started) => worker.once('message', started))));
  for (const { pid } of workers) pin(pid, SECOND);
  const queue = await queueOf(redis.url);
  await ask(queue, CLIENTS, jobs / 4);
  const before = await figuresOf(redis.client);
  const began = performance.now();
  const p50Ms = median(await ask(queue, CLIENTS, jobs));
  const seconds = (performance.now() - began) / 1000;
  const redisCpuMs = ((await figuresOf(redis.client)).cpuMs - before.cpuMs) / jobs;
  await queue.close();
  for (const worker of workers) worker.kill('SIGKILL');
  await redis.end();
  pin(process.pid, ALL);
  const most = (count * PASS.jobs * 1000) / PASS.ms;
  return { jobsPerSecond: jobs / seconds, ofMost: jobs / seconds / most, p50Ms, redisCpuMs };
}

/** One worker with passes, and room for two of them. */
async function neighbour() {
  const redis = await redisServer();
  const worker = workerOf(redis.url, passes(), 2 * PASS.jobs);
  const queue = await queueOf(redis.url);
  const aloneMs = median(await ask(queue, 1, 10, 'quiet'));
  const flood = ask(queue, FLOOD, FLOOD, 'noisy');
  while (queue.stats.waiting < FLOOD / 2) await delay(5);
  const quiet = await ask(queue, 1, 10, 'quiet');
  if (queue.stats.waiting === 0) throw new Error('the flood was over before the quiet key was');
  const floodMs = median(await flood);
  await worker.close(0);
  await queue.close();
  await redis.end();
  return { aloneMs, quietMs: median(quiet), floodMs };
}

if (WORKER === 'worker') {
  workerOf(url, passes());
  process.send('started');
} else {
  const runs = [];
  const counts = [1, 2, 4];
  const scaled = counts.map(() => []);
  const neighbours = [];
  for (let i = 0; i < repeats; i += 1) {
    runs.push(await costs());
    for (const [at, count] of counts.entries()) scaled[at].push(await replicas(count));
    neighbours.push(await neighbour());
  }
  const question = 'What does the queue in Redis cost a job, and what do more workers bring?';
  const workers = counts.map((count, at) => ({ workers: count, ...medians(scaled[at]) }));
  const about = { question, ...scriptProvenance(), jobs, repeats, clients: CLIENTS, pass: PASS };
  const result = { ...about, ...medians(runs), workers, flood: { jobs: FLOOD, ...medians(neighbours) } };
  writeResult('redis-queue', result, quick);
  console.log(JSON.stringify(result, null, 1));
}
