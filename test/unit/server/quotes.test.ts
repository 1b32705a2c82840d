// Quotes over HTTP, and refusals by them.
import { afterEach, describe, expect, it } from 'vitest';
import type { Quote } from '../../../src/protocol/quote.js';
import { MODEL, QUOTE } from '../queue/scripted-engine.js';
import { TestServer } from './test-server.js';

let server: TestServer;
afterEach(() => server.close());

async function start(flags: Record<string, string> = {}, own: Partial<Quote> = {}): Promise<void> {
  server = await TestServer.start(flags);
  server.engine.onControl = ({ kind }) => {
    if (kind !== 'quote') throw new Error(`unexpected ${kind}`);
    return { kind, quote: { ...QUOTE, ...own } };
  };
}

const BODIES: Record<string, object> = {
  '/v1/completions': { prompt: 'a', max_tokens: 40, stream: true },
  '/v1/chat/completions': { messages: [{ role: 'user', content: 'a' }], user: 'ignored' },
  '/v1/responses': { input: 'a' },
  '/v1/classify': { task: 'sst2', input: 'a' },
  '/v1/embeddings': { input: 'a' },
  '/v1/messages': { model: MODEL.name, max_tokens: 5, messages: [{ role: 'user', content: 'a' }] },
  '/api/chat': { messages: [{ role: 'user', content: 'a' }] },
  '/api/generate': { prompt: 'a' },
  '/api/embed': { input: 'a' },
};

describe('POST /v1/quote', () => {
  it.each(Object.entries(BODIES))('quotes %s, and runs nothing', async (path, body) => {
    await start();
    const { status, json } = await server.post('/v1/quote', { path, body });
    expect([status, json]).toEqual([
      200,
      {
        object: 'quote',
        model: MODEL.name,
        prompt_tokens: 9,
        max_tokens: 40,
        experts: { p50: 100, p90: 150 },
        bytes_moved: { p50: 4096, p90: 8192 },
        first_token_seconds: { p50: 0.25, p90: 0.5 },
        seconds: { p50: 8, p90: 20 },
        queue_seconds: 1,
        jobs_ahead: 2,
        measured_answers: 30,
      },
    ]);
    expect(server.engine.started).toEqual([]);
    expect(server.queue.stats.accepted).toBe(0);
  });

  it('adds what waits before the engine', async () => {
    await start();
    server.engine.script = undefined;
    const waiting = [1, 2, 3, 4].map(() => server.post('/v1/completions', { prompt: 'a' }));
    await expect.poll(() => server.queue.stats.waiting).toBe(2);
    const { json } = await server.post('/v1/quote', { path: '/v1/completions', body: { prompt: 'a' } });
    expect(json.jobs_ahead).toBe(4);
    expect(json.queue_seconds).toBeCloseTo(1.1);
    expect(json.seconds.p50).toBeCloseTo(8.1);
    server.engine.script = (run) => run.finish();
    for (const run of server.engine.runs) run.finish();
    await Promise.all(waiting);
  });

  it('loads no model', async () => {
    await start();
    server.engine.state = { phase: 'idle', detail: 'idle' };
    const asked: string[] = [];
    server.engine.onControl = ({ kind }) => {
      asked.push(kind);
      throw new Error('not loaded');
    };
    const { status, json } = await server.post('/v1/quote', {
      path: '/v1/completions',
      body: { prompt: 'a' },
    });
    expect([status, json.error.message]).toEqual([503, expect.stringContaining('not loaded')]);
    expect(asked).toEqual([]);
  });

  it('makes no more than 16 at a time, since the queue does not bound them', async () => {
    await start();
    let answer = () => {};
    const ready = new Promise<void>((resolve) => {
      answer = resolve;
    });
    server.engine.onControl = (({ kind }: { kind: string }) =>
      ready.then(() => ({ kind, quote: QUOTE }))) as never;
    const ask = () => server.post('/v1/quote', { path: '/v1/completions', body: { prompt: 'a' } });
    const all = Array.from({ length: 17 }, ask);
    expect((await Promise.race(all)).json.error.code).toBe('queue_full');
    answer();
    const answers = await Promise.all(all);
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(16);
    expect((await ask()).status).toBe(200);
  });

  it('names the paths that it takes, and the faults of a body as its route does', async () => {
    await start();
    const ask = (path: string, body: object) => server.post('/v1/quote', { path, body });
    const unknown = await ask('/v1/jobs', { type: 'chat' });
    expect(unknown).toMatchObject({
      status: 400,
      json: { error: { code: 'invalid_request', param: 'path' } },
    });
    for (const path of Object.keys(BODIES)) expect(unknown.json.error.message).toContain(path);
    expect(unknown.json.error.message).not.toContain('/v1/tokenize');
    const fault = await ask('/v1/completions', { prompt: 7 });
    expect(fault.json.error).toEqual((await server.post('/v1/completions', { prompt: 7 })).json.error);
  });

  it('does not load or unload a model', async () => {
    await start();
    const { status, json } = await server.post('/v1/quote', { path: '/api/chat', body: { keep_alive: 0 } });
    expect([status, json.error.code]).toEqual([400, 'invalid_request']);
  });
});

describe('--max-quote', () => {
  const complete = (more: object = {}) =>
    server.post('/v1/completions', { prompt: 'a', max_tokens: 40, ...more });

  it('refuses a request that alone takes longer, with its quote', async () => {
    await start({ maxQuote: '5s' });
    const { status, json, headers } = await complete();
    expect([status, json.error.code, headers['retry-after']]).toEqual([422, 'too_expensive', undefined]);
    expect(json.error.message).toContain('likely take 8 s, 1 s of them behind others');
    expect(json.error.message).toContain('--max-quote allows 5 s');
    expect(json.error.details).toEqual({
      ...{ seconds_p50: 8, seconds_p90: 20, queue_seconds: 1, limit_seconds: 5 },
      ...{ experts: 100, bytes_moved: 4096, max_tokens: 40 },
    });
    expect(server.engine.started).toEqual([]);
    const { text } = await server.ask('/metrics');
    expect(text).toContain('sida_admission_refused_total{reason="quote"} 1');
  });

  it('sends a request that the queue delays away for a while', async () => {
    await start({ maxQuote: '7500ms' });
    const { status, json, headers } = await complete();
    expect([status, json.error.code, headers['retry-after']]).toEqual([503, 'too_late', '1']);
  });

  it('runs what its half does not exceed', async () => {
    await start({ maxQuote: '8s' });
    expect((await complete()).status).toBe(200);
  });

  it('refuses nothing before answers were measured', async () => {
    await start({ maxQuote: '1s' }, { measured: 7 });
    expect((await complete()).status).toBe(200);
  });

  it('leaves requests without a limit unquoted', async () => {
    await start();
    expect((await complete()).status).toBe(200);
    expect(server.engine.controls).toEqual([]);
  });

  it('takes the lower limit of the server and of max_seconds', async () => {
    await start({ maxQuote: '10s' });
    expect((await complete()).status).toBe(200);
    const refused = await complete({ max_seconds: 2.5 });
    expect(refused.json.error).toMatchObject({ code: 'too_expensive', details: { limit_seconds: 2.5 } });
    expect(refused.json.error.message).toContain('"max_seconds" allows 2.5 s');
  });

  it('is for clients that wait, max_seconds for jobs too', async () => {
    await start({ maxQuote: '1s' });
    const job = (more: object) => server.post('/v1/jobs', { type: 'completion', prompt: 'a', ...more });
    expect((await job({})).status).toBe(202);
    expect((await job({ max_seconds: 1 })).json.error.code).toBe('too_expensive');
  });
});

it('bounds no requests that are compared with --max-quote', async () => {
  await start({ maxQuote: '60s' });
  server.engine.onControl = (({ kind }: { kind: string }) =>
    new Promise((resolve) => {
      setTimeout(() => resolve({ kind, quote: QUOTE }), 300);
    })) as never;
  const all = await Promise.all(
    Array.from({ length: 40 }, () => server.post('/v1/completions', { prompt: 'a' })),
  );
  expect(all.map(({ status }) => status)).toEqual(new Array(40).fill(200));
});

it('leaves the text of a request unread that a full queue refuses', async () => {
  await start({ maxQuote: '5s', queueBound: '1' });
  const waiting: Promise<unknown>[] = [];
  server.engine.script = undefined;
  const quoted: string[] = [];
  server.engine.onControl = ({ kind }) => {
    quoted.push(kind);
    return { kind: 'quote', quote: { ...QUOTE, seconds: { p50: 1, p90: 2 } } };
  };
  for (let i = 0; i < 3; i += 1) waiting.push(server.post('/v1/completions', { prompt: 'a' }));
  await expect.poll(() => server.queue.stats.waiting).toBe(1);
  const before = quoted.length;
  const { json } = await server.post('/v1/completions', { prompt: 'a' });
  expect(json.error.code).toBe('queue_full');
  expect(quoted.length).toBe(before);
  server.engine.script = (run) => run.finish();
  for (const run of server.engine.runs) run.finish();
  await Promise.all(waiting);
});
