// Quotes of a real server: what it tells of requests before they run, against what they then cost.
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { metricsOf, REPO, ServerProcess } from '../../support/server-process.js';

const TINY = join(REPO, 'test/fixtures/olmoe-tiny');

let server: ServerProcess;
beforeAll(async () => {
  const limits = ['--max-batch-tokens', '64', '--kv-tokens', '1024', '--prefix-cache', 'off'];
  server = await ServerProcess.start(['--model', TINY, '--memory-budget', '50%', ...limits]);
  for (let seed = 0; seed < 24; seed += 1) await complete({ prompt: tokens(seed, 20) });
});
afterAll(() => server.stop());

const tokens = (seed: number, length: number): number[] =>
  Array.from({ length }, (_, i) => 3 + ((seed * 31 + i * i * 7 + i) % 100));
const complete = (more: object) =>
  server.post('/v1/completions', { max_tokens: 24, include: ['experts', 'quote'], ...more });
const quote = (body: object) => server.post('/v1/quote', { path: '/v1/completions', body });

it('tells experts, bytes and seconds, and runs nothing', async () => {
  const before = await metricsOf(server);
  const { status, body } = await quote({ prompt: tokens(50, 30), max_tokens: 24 });
  expect([status, body]).toMatchObject([
    200,
    {
      object: 'quote',
      model: 'olmoe-tiny',
      prompt_tokens: 30,
      max_tokens: 24,
      jobs_ahead: 0,
      measured_answers: 24,
    },
  ]);
  expect((await metricsOf(server))('sida_queue_accepted_total')).toBe(before('sida_queue_accepted_total'));
  // One answer moves twice what another does.
  const took = { needed: 0, bytes_moved: 0 };
  for (let seed = 60; seed < 68; seed += 1) {
    const { experts } = (await complete({ prompt: tokens(seed, 30) })).body;
    took.needed += experts.needed / 8;
    took.bytes_moved += experts.bytes_moved / 8;
  }
  expect(body.experts.p50 / took.needed).toBeGreaterThan(0.9);
  expect(body.experts.p50 / took.needed).toBeLessThan(1.1);
  expect(body.bytes_moved.p50 / took.bytes_moved).toBeGreaterThan(0.6);
  expect(body.bytes_moved.p50 / took.bytes_moved).toBeLessThan(1.6);
  expect(body.seconds.p50).toBeGreaterThan(body.first_token_seconds.p50);
  expect(body.seconds.p50).toBeLessThan(5);
});

it('quotes more for more tokens', async () => {
  const [few, many] = await Promise.all(
    [8, 200].map(async (max_tokens) => (await quote({ prompt: tokens(51, 30), max_tokens })).body),
  );
  for (const figure of ['experts', 'bytes_moved'] as const)
    expect(many[figure].p90 / few[figure].p90).toBeGreaterThan(4);
  // Each includes what its own tokenizing took.
  expect(many.seconds.p90).toBeGreaterThan(few.seconds.p90);
});

it('puts the quote into the answer, whole and at the end of a stream', async () => {
  const whole = await complete({ prompt: tokens(52, 10), max_tokens: 6 });
  expect(whole.body.quote).toMatchObject({ prompt_tokens: 10, max_tokens: 6 });
  const stream = await complete({ prompt: tokens(53, 10), max_tokens: 6, stream: true });
  expect(JSON.stringify(stream.body)).toContain('measured_answers');
  const bare = await complete({ prompt: tokens(54, 10), max_tokens: 6, include: [] });
  expect(bare.body.quote).toBeUndefined();
});

it('counts how many answers stay within their quotes', async () => {
  await server.until(async () => (await metricsOf(server))('sida_quote_answers_total') >= 24);
  const metric = await metricsOf(server);
  const within = metric('sida_quote_answers_within_total');
  expect(within).toBeGreaterThan(0);
  expect(within).toBeLessThanOrEqual(metric('sida_quote_answers_total'));
});

it('refuses a request that takes longer than it allows', async () => {
  const { status, body } = await complete({ prompt: tokens(55, 10), max_tokens: 200, max_seconds: 0.0001 });
  expect([status, body.error.code, body.error.details.limit_seconds]).toEqual([422, 'too_expensive', 0.0001]);
  expect((await complete({ prompt: tokens(55, 10), max_seconds: 60 })).status).toBe(200);
});

it('charges what answers move', async () => {
  const limited = await ServerProcess.start([
    ...['--model', TINY, '--memory-budget', '50%', '--prefix-cache', 'off'],
    ...['--rate-limit-bytes', '64MiB'],
  ]);
  const ask = (seed: number) =>
    limited.post('/v1/completions', { prompt: tokens(seed, 20), max_tokens: 24, include: ['experts'] });
  let moved = 0;
  let answer = await ask(0);
  for (let seed = 1; answer.status === 200; seed += 1) {
    const remaining = Number(answer.headers.get('x-ratelimit-remaining-bytes'));
    expect(remaining).toBeLessThanOrEqual(2 ** 26 - moved);
    moved += answer.body.experts.bytes_moved;
    answer = await ask(seed);
  }
  const { code, details } = answer.body.error;
  expect([answer.status, code, details.limit]).toEqual([429, 'rate_limited', 2 ** 26]);
  // The last answer may have moved more than it reserved.
  expect(details.bytes > details.remaining || moved > 2 ** 26).toBe(true);
  expect(details.remaining).toBeLessThanOrEqual(Math.max(0, 2 ** 26 - moved));
  expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0);
  await limited.stop();
});
