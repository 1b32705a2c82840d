// Readers of streams that take a byte a second, and large answers that are read fast.
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect } from 'vitest';
import { LIMITS } from '../../src/server/limits.js';
import { eventually } from '../support/eventually.js';
import { postText } from '../support/http-client.js';
import type { Metric } from '../support/server-process.js';
import { fault } from './fault.js';
import { percentile, Subject } from './subject.js';

const MIB = 1024 ** 2;
/** Streams of their own, and readers of one kept job, which share its run. */
const STREAMS = 10;
const WATCHERS = 90;
/** Five megabytes of pieces, however they are joined: the buffers of the kernel alone take some. */
const STREAM = {
  prompt: Array.from({ length: 32 }, (_, i) => [2 + i, 40 + i]),
  max_tokens: 680,
  logprobs: 5,
  return_token_ids: true,
  stream: true,
};
/** What is kept for a reader are pieces of half a kilobyte, and each costs that twice again. */
const OVERHEAD = 3;

let subject: Subject;
beforeAll(async () => {
  // Room for all of them at once: others shall not wait for it.
  const args = ['--kv-tokens', '400000', '--deadline', '5m', '--job-retention', '1s'];
  subject = await Subject.startWith({ sample: 'tiny' }, ...args);
});
afterAll(() => subject.stop());

interface Reader {
  socket: Socket;
  text: string;
  closed: Promise<void>;
}

function open(request: string): Reader {
  const socket = connect({ host: '127.0.0.1', port: subject.port }, () => socket.write(request));
  const closed = new Promise<void>((resolve) => socket.on('close', () => resolve()));
  const reader: Reader = { socket, text: '', closed };
  socket.on('error', () => undefined);
  return reader;
}

function read(reader: Reader): void {
  reader.socket.on('data', (data) => {
    // Its end says how it ended.
    reader.text = (reader.text + data.toString('latin1')).slice(-64);
  });
}

const whole = ({ text }: Reader) => text.endsWith('\r\n0\r\n\r\n');

/** All of them, connected before the shared job begins to run. */
async function readers(): Promise<Reader[]> {
  const [engine] = subject.server.enginePids();
  process.kill(engine!, 'SIGSTOP');
  const { status, headers } = await subject.ask('/v1/jobs', {
    method: 'POST',
    body: { type: 'completion', ...STREAM },
  });
  expect(status).toBe(202);
  const watch = `GET ${headers.location}/events HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n`;
  const all = Array.from({ length: WATCHERS }, () => open(watch));
  const request = postText(
    '/v1/completions',
    STREAM,
    'connection: close',
    `x-request-id: ${'x'.repeat(128)}`,
  );
  all.push(...Array.from({ length: STREAMS }, () => open(request)));
  await eventually(async () => {
    const metric = await subject.metrics();
    return metric('sida_kept_watching') === WATCHERS && jobsIn(metric) === STREAMS + 1;
  }, 'all readers');
  process.kill(engine!, 'SIGCONT');
  return all;
}

function jobsIn(metric: Metric): number {
  return metric('sida_queue_active_jobs') + metric('sida_queue_waiting_jobs');
}

fault('slow readers of streams', async (report) => {
  const fast = await readers();
  for (const reader of fast) read(reader);
  const fastLatencies = await subject.goodUntil(Promise.all(fast.map(({ closed }) => closed)), 10);
  expect(fast.filter(whole)).toHaveLength(fast.length);
  const slowReaders = async () => (await subject.metrics())('sida_http_slow_readers_total');
  expect(await slowReaders()).toBe(0);
  // The same streams, read slowly and then fast again, must leave no more behind than these.
  await subject.settle();

  const risen = await subject.watchMemory();
  const slow = await readers();
  const drip = setInterval(() => {
    for (const { socket } of slow) socket.read(1);
  }, 1_000);
  const allClosed = eventually(
    async () => (await slowReaders()) === slow.length,
    'the end of slow readers',
    240_000,
  );
  const latencies = await subject.goodUntil(allClosed, 10);
  await allClosed;
  clearInterval(drip);
  const peak = risen() / MIB;
  // What the kernel had taken is still there for them; the answer's end is not.
  for (const reader of slow) read(reader);
  await Promise.all(slow.map(({ closed }) => closed));
  expect(slow.filter(whole)).toEqual([]);
  await eventually(async () => jobsIn(await subject.metrics()) === 0, 'the end of their jobs', 60_000);
  const again = await readers();
  for (const reader of again) read(reader);
  await Promise.all(again.map(({ closed }) => closed));
  expect(again.filter(whole)).toHaveLength(again.length);

  report.note(
    `${slow.length} readers of a byte a second: all closed without an end, ${fast.length} fast ones served whole`,
  );
  const cap = (slow.length * LIMITS.streamBufferBytes) / MIB;
  report.note(`${latencies.length} answers to others right meanwhile`);
  report.atMost('memory at its peak grown by', peak, OVERHEAD * cap + 64, 'MiB');
  const [p99, fastP99] = [percentile(latencies, 0.99), percentile(fastLatencies, 0.99)];
  report.note(
    `p99 of others ${p99.toFixed(0)} ms beside slow readers, ${fastP99.toFixed(0)} ms beside fast ones`,
  );
  report.ratio('p99 of others, of that beside fast readers,', p99 / fastP99, 1.1, 2, '×');
  expect(jobsIn(await subject.metrics())).toBe(0);
  await subject.recovered(report);
});

/** As many as a request may have: five megabytes of numbers. */
const EMBEDDINGS = { input: Array.from({ length: 2_048 }, (_, i) => [2 + (i % 400)]) };

/** The event loop's lag since the last scrape, at p99. */
async function lagMs(of: Subject): Promise<number> {
  return 1_000 * (await of.metrics())('sida_nodejs_eventloop_lag_p99_seconds');
}

fault('large answers', async (report) => {
  const words = await Subject.start();
  // The first answer is written by code that is not compiled yet.
  const whole = (await words.ask('/v1/embeddings', { method: 'POST', body: EMBEDDINGS })).json.data;
  expect(whole).toHaveLength(EMBEDDINGS.input.length);
  await lagMs(words);
  await words.goodUntil(delay(3_000));
  const quiet = await lagMs(words);
  const request = postText('/v1/embeddings', EMBEDDINGS, 'connection: close');
  const answers = Promise.all(Array.from({ length: 8 }, () => words.raw(request, 60_000)));
  const latencies = await words.goodUntil(answers, 10);
  const lag = await lagMs(words);
  const lengths = (await answers).map(({ length }) => length);
  expect(Math.min(...lengths)).toBeGreaterThan(4 * MIB);
  report.note(
    `8 answers of ${(lengths[0]! / MIB).toFixed(1)} MiB, ${latencies.length} answers to others right`,
  );
  report.withinTime('event loop lag p99', lag, 50, 'ms', {
    what: 'the lag without them',
    value: quiet,
    times: 15,
  });
  await words.recovered(report);
  await words.stop();
});
