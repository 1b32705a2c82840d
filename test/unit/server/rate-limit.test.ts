// The rate limit and the queue shares of keys over HTTP.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { hashKey, newApiKey } from '../../../src/access/api-key.js';
import { keyLine } from '../../../src/access/key-file.js';
import { SidaError } from '../../../src/errors.js';
import type { Quote } from '../../../src/protocol/quote.js';
import { eventually } from '../../support/eventually.js';
import { answerTo, COST, QUOTE } from '../queue/scripted-engine.js';
import { type Answer, TestServer } from './test-server.js';

const folder = mkdtempSync(join(tmpdir(), 'sida-rate-'));
afterAll(() => rmSync(folder, { recursive: true }));
const keys = { noisy: newApiKey(), quiet: newApiKey() };
const apiKeys = join(folder, 'keys');
const line = ([name, key]: [string, string]) => keyLine({ name, scopes: ['infer'], hash: hashKey(key) });
writeFileSync(apiKeys, Object.entries(keys).map(line).join('\n'), { mode: 0o600 });

let server: TestServer;
afterEach(() => server.close());

const ids = (tokens: number) => ({ prompt: Array.from({ length: tokens }, () => 5), max_tokens: 1 });
const as = (who: keyof typeof keys) => ({ authorization: `Bearer ${keys[who]}` });
const complete = (who: keyof typeof keys, tokens: number) =>
  server.post('/v1/completions', ids(tokens), as(who));
const tokensOf = ({ headers }: Answer) => [
  headers['x-ratelimit-limit-tokens'],
  headers['x-ratelimit-remaining-tokens'],
];

describe('--rate-limit', () => {
  it('reports the remaining tokens, and charges the tokens that were used', async () => {
    server = await TestServer.start({ apiKeys, rateLimit: '100' });
    const first = await complete('noisy', 49);
    expect(first.status).toBe(200);
    expect(tokensOf(first)).toEqual(['100', '50']);
    expect(first.headers['x-ratelimit-reset-tokens']).toMatch(/^\d+s$/);
    // The engine reports nine prompt tokens and one generated token.
    expect(tokensOf(await complete('noisy', 49))).toEqual(['100', '40']);
  });

  it('refuses with 429, Retry-After and the numbers, and logs the name of the key', async () => {
    server = await TestServer.start({ apiKeys, rateLimit: '100' });
    server.engine.script = undefined;
    const running = complete('noisy', 89);
    await eventually(() => server.engine.runs.length === 1);
    const refused = await complete('noisy', 20);
    expect([refused.status, refused.json.error.code, refused.json.error.type]).toEqual([
      429,
      'rate_limited',
      'rate_limit_error',
    ]);
    expect(refused.json.error.details).toEqual({ tokens: 21, limit: 100, remaining: 10 });
    expect(tokensOf(refused)).toEqual(['100', '10']);
    const wait = Number(refused.headers['retry-after']);
    expect(wait).toBeGreaterThan(0);
    expect(wait).toBeLessThanOrEqual(60);
    expect(server.queue.stats.accepted).toBe(1);
    expect(server.log.find(({ status }) => status === 429)).toMatchObject({ key: 'noisy' });
    server.engine.runs[0]!.finish();
    expect((await running).status).toBe(200);
    expect((await server.ask('/health/live')).headers['x-ratelimit-limit-tokens']).toBeUndefined();
  });

  it('returns the reservation after a server error', async () => {
    server = await TestServer.start({ apiKeys, rateLimit: '100' });
    server.engine.script = (run) => run.fail('internal');
    for (let i = 0; i < 5; i += 1) expect((await complete('noisy', 89)).status).toBe(500);
  });

  it('charges texts by their bytes when the engine refuses them, and when they are few tokens', async () => {
    server = await TestServer.start({ apiKeys, rateLimit: '1000' });
    const text = 'x'.repeat(900);
    const remaining = async () =>
      Number((await complete('noisy', 1)).headers['x-ratelimit-remaining-tokens']) + 2;
    const before = await remaining();
    server.engine.script = (run) => run.fail('cannot_run');
    expect((await server.post('/v1/tokenize', { input: text }, as('noisy'))).status).toBe(422);
    server.engine.script = (run) => run.finish();
    const after = await remaining();
    // A third of its bytes, and the ten tokens of the completion that asked before.
    expect(before - after).toBe(300 + 10);
    expect((await server.post('/v1/tokenize', { input: text }, as('noisy'))).status).toBe(200);
    // The scripted engine reports ten tokens for it. An eighth of its bytes is more.
    expect(after - (await remaining())).toBe(Math.ceil(900 / 8) + 10);
  });

  it('keeps the reservation when a run finds that the request cannot be answered', async () => {
    server = await TestServer.start({ apiKeys, rateLimit: '100' });
    server.engine.script = (run) => run.fail('cannot_run', { ran: true });
    const { status, json } = await complete('noisy', 89);
    expect([status, json.error.code, 'ran' in json.error]).toEqual([422, 'cannot_run', false]);
    expect((await complete('noisy', 89)).status).toBe(429);
    server.engine.script = (run) => run.fail('internal', { ran: true });
    const quiet = await complete('quiet', 89);
    expect([quiet.status, (await complete('quiet', 89)).status]).toEqual([500, 500]);
  });

  it('keeps the reservation when the deadline passes', async () => {
    server = await TestServer.start({ apiKeys, rateLimit: '100', deadline: '30ms' });
    server.engine.script = undefined;
    expect((await complete('noisy', 89)).status).toBe(504);
    expect((await complete('noisy', 89)).status).toBe(429);
  });

  it('charges a kept job at acceptance, settles it at its end, and charges each idempotency key once', async () => {
    server = await TestServer.start({ apiKeys, rateLimit: '100' });
    server.engine.script = undefined;
    const keep = (tokens: number, key: string) =>
      server.post(
        '/v1/jobs',
        { type: 'completion', ...ids(tokens) },
        { ...as('noisy'), 'idempotency-key': key },
      );
    expect(tokensOf(await keep(59, 'a'))).toEqual(['100', '40']);
    expect((await keep(59, 'b')).status).toBe(429);
    await eventually(() => server.engine.runs.length === 1);
    server.engine.runs[0]!.finish();
    // The engine reports nine prompt tokens and one generated token.
    await eventually(async () => tokensOf(await keep(49, 'c'))[1] === '40');
    expect((await keep(29, 'd')).status).toBe(202);
    const again = await keep(1, 'e');
    expect(tokensOf(again)).toEqual(['100', '8']);
    expect((await keep(1, 'e')).headers['idempotent-replayed']).toBe('true');
    expect(tokensOf(await keep(1, 'f'))).toEqual(['100', '6']);
  });

  it('lets a request be repeated under its idempotency key when nothing more may be sent', async () => {
    server = await TestServer.start({ apiKeys, rateLimit: '100' });
    server.engine.script = undefined;
    const keep = (tokens: number) =>
      server.post(
        '/v1/jobs',
        { type: 'completion', ...ids(tokens) },
        { ...as('noisy'), 'idempotency-key': 'a' },
      );
    const first = await keep(89);
    const again = await keep(89);
    expect([first.status, again.status, again.json.id]).toEqual([202, 202, first.json.id]);
    expect(again.headers['idempotent-replayed']).toBe('true');
    expect((await keep(88)).status).toBe(422);
    expect((await complete('noisy', 89)).status).toBe(429);
  });

  it('charges texts that were encoded before the engine had no room for their grammar', async () => {
    server = await TestServer.start({ apiKeys, rateLimit: '1000' });
    const full = () => server.post('/v1/tokenize', { input: 'x'.repeat(1_800) }, as('noisy'));
    server.engine.script = (run) => run.fail('queue_full', { read: true });
    const { status, json } = await full();
    expect([status, 'read' in json.error]).toEqual([429, false]);
    server.engine.script = (run) => run.finish();
    // A third of its bytes stays charged; a half is reserved.
    expect((await full()).json.error.code).toBe('rate_limited');
  });

  it('counts by client address without keys', async () => {
    server = await TestServer.start({ rateLimit: '100' });
    server.engine.script = undefined;
    void server.post('/v1/completions', ids(89)).catch(() => undefined);
    await eventually(() => server.engine.runs.length === 1);
    expect((await server.post('/v1/completions', ids(89))).status).toBe(429);
    expect((await server.post('/v1/completions', { prompt: [5], max_tokens: 200 })).status).toBe(422);
  });

  it('is off by default', async () => {
    server = await TestServer.start({ apiKeys });
    const answer = await complete('noisy', 100);
    expect([answer.status, answer.headers['x-ratelimit-limit-tokens']]).toEqual([200, undefined]);
  });
});

describe('--rate-limit-bytes', () => {
  const MiB = 2 ** 20;
  const bytesOf = ({ headers }: Answer) => [
    headers['x-ratelimit-limit-bytes'],
    headers['x-ratelimit-remaining-bytes'],
  ];
  /** The p90 of every request is half of a MiB, and it moves an eighth. */
  async function start(flags: Record<string, string> = {}, own: Partial<Quote> = {}): Promise<void> {
    server = await TestServer.start({ apiKeys, rateLimitBytes: '1MiB', ...flags });
    server.engine.onControl = () => {
      return { kind: 'quote', quote: { ...QUOTE, bytes: { p50: MiB / 4, p90: MiB / 2 }, ...own } };
    };
    server.engine.script = (run) => run.finish(moved(run.request));
  }
  const moved = (request: Parameters<typeof answerTo>[0], bytes = MiB / 8) => {
    return { ...answerTo(request), experts: { ...COST, bytes } };
  };

  it('reserves the quote, and charges what the answer moved', async () => {
    await start();
    expect(bytesOf(await complete('noisy', 9))).toEqual([`${MiB}`, `${MiB / 2}`]);
    expect(bytesOf(await complete('noisy', 9))).toEqual([`${MiB}`, `${(3 * MiB) / 8}`]);
    expect(bytesOf(await complete('quiet', 9))).toEqual([`${MiB}`, `${MiB / 2}`]);
  });

  it('refuses with 429, Retry-After and the quote', async () => {
    await start();
    server.engine.script = undefined;
    const held = complete('noisy', 9);
    await eventually(() => server.engine.runs.length === 1);
    server.engine.script = (run) => run.finish(moved(run.request, (3 * MiB) / 8));
    expect((await complete('noisy', 9)).status).toBe(200);
    const refused = await complete('noisy', 9);
    expect([refused.status, refused.json.error.code]).toEqual([429, 'rate_limited']);
    expect(refused.json.error.details).toEqual({
      ...{ bytes: MiB / 2, limit: MiB, remaining: MiB / 8, seconds_p50: 8, seconds_p90: 20 },
      ...{ queue_seconds: 1, experts: 100, bytes_moved: MiB / 4, max_tokens: 40 },
    });
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
    expect(bytesOf(refused)).toEqual([`${MiB}`, `${MiB / 8}`]);
    for (const run of [...server.engine.runs]) run.finish();
    await held;
  });

  it('returns the reservation after a server error, and keeps it after a deadline', async () => {
    await start({ deadline: '30ms' });
    server.engine.script = (run) => run.fail('internal');
    for (let i = 0; i < 4; i += 1) expect((await complete('noisy', 9)).status).toBe(500);
    server.engine.script = undefined;
    for (let i = 0; i < 2; i += 1) expect((await complete('noisy', 9)).status).toBe(504);
    expect((await complete('noisy', 9)).status).toBe(429);
  });

  it('refuses with 422 and the quote when half of its like exceed the limit of a minute', async () => {
    await start({}, { bytes: { p50: 2 * MiB, p90: 3 * MiB } });
    const { status, json } = await complete('noisy', 9);
    expect([status, json.error.code]).toEqual([422, 'cannot_run']);
    expect(json.error.details).toMatchObject({ bytes: 2 * MiB, limit: MiB, bytes_moved: 2 * MiB });
    expect(server.engine.started).toEqual([]);
  });

  it('reserves what answers moved on average before the quotes of its kind count, also of those that are cut', async () => {
    await start({ deadline: '30ms' }, { bytes: { p50: 9 * MiB, p90: 9 * MiB }, measured: 7 });
    expect(bytesOf(await complete('noisy', 9))).toEqual([`${MiB}`, `${MiB}`]);
    expect(bytesOf(await complete('noisy', 9))).toEqual([`${MiB}`, `${(6 * MiB) / 8}`]);
    server.engine.script = undefined;
    for (let i = 0; i < 6; i += 1) expect((await complete('noisy', 9)).status).toBe(504);
    expect((await complete('noisy', 9)).status).toBe(429);
  });

  it('leaves the text of a request unread when the minute is used up, and requests that run no model alone', async () => {
    await start();
    server.engine.script = (run) => run.finish(moved(run.request, 2 * MiB));
    expect((await complete('noisy', 9)).status).toBe(200);
    expect(server.engine.controls).toHaveLength(1);
    expect((await complete('noisy', 9)).status).toBe(429);
    const tokens = await server.post('/v1/tokenize', { input: 'a' }, as('noisy'));
    expect([tokens.status, ...bytesOf(tokens)]).toEqual([200, undefined, undefined]);
    expect(server.engine.controls).toHaveLength(1);
  });

  it.each(['engine_crashed', 'not_ready', 'deadline_exceeded'] as const)(
    'runs a request whose quote fails with %s',
    async (code) => {
      await start();
      server.engine.onControl = () => {
        throw new SidaError({ code, message: 'scripted' });
      };
      expect((await complete('noisy', 9)).status).toBe(200);
    },
  );

  it('reserves nothing for a client that left during the quote', async () => {
    await start();
    let quoted = () => {};
    const quote = new Promise<void>((resolve) => {
      quoted = resolve;
    });
    server.engine.onControl = (() =>
      quote.then(() => ({ kind: 'quote', quote: { ...QUOTE, bytes: { p50: MiB, p90: MiB } } }))) as never;
    const left = new AbortController();
    const { port } = server.running;
    const asked = fetch(`http://127.0.0.1:${port}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...as('noisy') },
      body: JSON.stringify(ids(9)),
      signal: left.signal,
    }).catch(() => undefined);
    await eventually(() => server.engine.controls.length === 1);
    left.abort();
    await asked;
    await eventually(() => server.log.some(({ status }) => status === 499));
    quoted();
    expect(bytesOf(await complete('noisy', 9))).toEqual([`${MiB}`, '0']);
    expect(server.engine.started).toHaveLength(1);
  });

  it('charges at the end where there is no quote', async () => {
    server = await TestServer.start({ rateLimitBytes: '1MiB' });
    server.engine.computes = undefined;
    server.engine.script = (run) => run.finish(moved(run.request, 2 * MiB));
    const ask = () => server.post('/v1/completions', ids(9));
    expect(bytesOf(await ask())).toEqual([`${MiB}`, `${MiB}`]);
    const refused = await ask();
    expect([refused.status, refused.json.error.details.remaining]).toEqual([429, 0]);
    expect(server.engine.controls).toEqual([]);
    const { text } = await server.ask('/metrics');
    expect(text).toContain('sida_admission_refused_total{reason="bytes"} 1');
  });

  it('charges kept jobs', async () => {
    await start();
    const kept = await server.post('/v1/jobs', { type: 'completion', ...ids(9) }, as('noisy'));
    expect([kept.status, ...bytesOf(kept)]).toEqual([202, `${MiB}`, `${MiB / 2}`]);
    await eventually(() => server.queue.stats.completed === 1);
    expect(bytesOf(await complete('noisy', 9))).toEqual([`${MiB}`, `${(3 * MiB) / 8}`]);
  });
});

describe('a key that floods', () => {
  const flood = (count: number, tokens: number) =>
    Promise.all(Array.from({ length: count }, () => complete('noisy', tokens)));

  it('gets no more than its tokens, and every request of another key is answered', async () => {
    server = await TestServer.start({ apiKeys, rateLimit: '1000' });
    // Each request uses exactly the tokens that it reserves.
    server.engine.script = (run) => {
      setTimeout(() => run.finish({ ...answerTo(run.request), promptTokens: 9, completionTokens: 1 }), 1);
    };
    const noise = flood(500, 9);
    const quiet: number[] = [];
    for (let i = 0; i < 50; i += 1) quiet.push((await complete('quiet', 9)).status);
    const statuses = (await noise).map(({ status }) => status);
    expect(quiet).toEqual(quiet.map(() => 200));
    expect(statuses.filter((status) => status === 200)).toHaveLength(100);
    expect(statuses.filter((status) => status === 429)).toHaveLength(400);
    expect((await server.ask('/health/ready')).status).toBe(200);
  });

  it('fills at most half of the queue, and the other key finds room', async () => {
    server = await TestServer.start({ apiKeys, queueBound: '40' });
    server.engine.script = undefined;
    const noise = flood(200, 9);
    await eventually(() => server.log.filter(({ status }) => status === 429).length >= 170);
    expect(server.queue.stats.waiting).toBeLessThanOrEqual(21);
    const quiet = Array.from({ length: 10 }, () => complete('quiet', 9));
    await eventually(() => server.queue.stats.waiting >= 29);
    server.engine.script = (run) => run.finish();
    for (const run of server.engine.runs) run.finish();
    expect((await Promise.all(quiet)).map(({ status }) => status)).toEqual(quiet.map(() => 200));
    const refused = (await noise).filter(({ status }) => status === 429);
    expect(refused.length).toBeGreaterThanOrEqual(170);
    for (const { json, headers } of refused) {
      expect(json.error.code).toBe('queue_full');
      expect(Number(headers['retry-after'])).toBeGreaterThan(0);
    }
  });
});
