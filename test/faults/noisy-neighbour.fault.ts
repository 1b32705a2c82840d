// One key asks for all that the server can do; another one asks for little and must not wait for it.
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect } from 'vitest';
import { ask } from '../support/http-client.js';
import { keyFile } from '../support/key-file.js';
import { RedisServer } from '../support/redis.js';
import { sst2 } from '../support/server-process.js';
import { percentile, serverFault } from './subject.js';

/** Tokens a minute of each key: about twice what the quiet one uses here. */
const RATE = 40_000;
const keys = keyFile({ quiet: ['infer', 'metrics'], noisy: ['infer'] });
const redis = await RedisServer.absent();
beforeAll(() => redis.up());
afterAll(async () => {
  keys.remove();
  await redis.end();
});
const SENTENCES = sst2().map(({ text }) => text);

/** Clients of the noisy key ask again at once, or after a second where they were refused; its answers by status. */
async function flood(port: number, clients: number, seconds: number): Promise<Map<number, number>> {
  const statuses = new Map<number, number>();
  const until = performance.now() + seconds * 1_000;
  const client = async (number: number) => {
    const input = SENTENCES.slice((number % 20) * 32, (number % 20) * 32 + 32);
    const asked = { method: 'POST', headers: keys.headers.noisy, body: { task: 'sst2', input } };
    while (performance.now() < until) {
      const { status } = await ask(port, '/v1/classify', asked);
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      if (status === 429) await delay(1_000);
    }
  };
  await Promise.all(Array.from({ length: clients }, (_, number) => client(number)));
  return statuses;
}

/** `refused` is why the noisy key is, `bound` how many times its p99 without noise the p99 of the quiet key may be. */
const CASES = [
  {
    what: 'under --rate-limit',
    limit: ['--rate-limit', `${RATE}`],
    clients: 100,
    seconds: 30,
    refused: 'rate',
    bound: 6,
  },
  // The engine computes what it has taken, and whoever comes waits for that, however fair the queue is.
  { what: 'without --rate-limit', limit: [], clients: 400, seconds: 10, refused: 'share', bound: 300 },
  {
    what: 'over Redis without --rate-limit',
    limit: ['--redis', redis.url],
    clients: 400,
    seconds: 10,
    refused: 'share',
    bound: 300,
  },
];

for (const { what, limit, clients, seconds, refused, bound } of CASES) {
  const options = { headers: keys.headers.quiet, args: ['--api-keys', keys.path, ...limit] };
  serverFault(`a noisy neighbour ${what}`, options, async (subject, report) => {
    const calm = await subject.goodUntil(delay(5_000));
    const flooding = flood(subject.port, clients, seconds);
    const disturbed = await subject.goodUntil(flooding);
    const statuses = await flooding;
    const of = (status: number) => statuses.get(status) ?? 0;
    const ms = (latencies: number[], share: number) => percentile(latencies, share).toFixed(0);
    report.note(`the noisy key: ${of(200)} requests of 32 inputs answered, ${of(429)} refused with 429`);
    report.note(`the quiet one: ${disturbed.length} answered, none refused`);
    report.note(
      `its p50 ${ms(disturbed, 0.5)} ms, p99 ${ms(disturbed, 0.99)} ms, alone ${ms(calm, 0.99)} ms`,
    );
    expect([...statuses.keys()].filter((status) => status !== 200 && status !== 429)).toEqual([]);
    expect(of(429)).toBeGreaterThan(0);
    expect((await subject.metrics())(`sida_admission_refused_total{reason="${refused}"}`)).toBe(of(429));
    const slower = percentile(disturbed, 0.99) / percentile(calm, 0.99);
    report.ratio('p99 of the quiet key, of its p99 alone,', slower, 2, bound, '×');
  });
}
