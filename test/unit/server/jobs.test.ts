// Kept jobs: acceptance, answers, cancellation, idempotency.

import { connect } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { ANYONE } from '../../../src/access/key-ring.js';
import { ROUTES } from '../../../src/server/routes/index.js';
import { eventually } from '../../support/eventually.js';
import { answerTo, MODEL } from '../queue/scripted-engine.js';
import { type Answer, TestServer } from './test-server.js';

const CLASSIFY = { type: 'classify', task: 'sst2', input: 'a fine film' };

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start();
});
beforeEach(() => {
  server.engine.model = MODEL;
  server.engine.enter('ready');
  server.engine.script = (run) => run.finish();
});
afterAll(() => server.close());

const post = (body: unknown, headers: Record<string, string> = {}) => server.post('/v1/jobs', body, headers);

/** Polls the job until it has ended. */
async function ended(location: unknown): Promise<Answer> {
  let answer: Answer | undefined;
  await eventually(async () => {
    answer = await server.ask(String(location));
    return !['queued', 'running'].includes(answer.json.status);
  }, `the end of ${location}`);
  return answer!;
}

/** Accepts a job that stays in the engine until the test ends it. */
async function running(body: unknown = CLASSIFY) {
  server.engine.script = undefined;
  const accepted = await post(body);
  await eventually(() => server.engine.runs.length > 0);
  return { path: String(accepted.headers.location), run: server.engine.runs.at(-1)! };
}

describe('POST /v1/jobs', () => {
  it('answers 202 with the location of the job, which then has the answer of its route', async () => {
    const accepted = await post(CLASSIFY);
    expect(accepted.status).toBe(202);
    const { id } = accepted.json;
    expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(accepted.headers.location).toBe(`/v1/jobs/${id}`);
    expect(accepted.json).toEqual({
      object: 'job',
      id,
      type: 'classify',
      status: 'queued',
      created_ms: expect.any(Number),
      started_ms: null,
      finished_ms: null,
      attempts: 0,
      answer: null,
      error: null,
    });
    const { type: _, ...body } = CLASSIFY;
    const direct = await server.post('/v1/classify', body);
    expect((await ended(accepted.headers.location)).json).toEqual({
      ...accepted.json,
      status: 'completed',
      started_ms: expect.any(Number),
      finished_ms: expect.any(Number),
      attempts: 1,
      answer: direct.json,
    });
  });

  it('gives a completion as its route does, with all requested fields', async () => {
    const body = { prompt: ['a', [5]], logprobs: 1, return_token_ids: true, include: ['experts'] };
    const direct = await server.post('/v1/completions', body);
    const accepted = await post({ type: 'completion', ...body, stream: true });
    const { json } = await ended(accepted.headers.location);
    expect(json.answer).toEqual({
      ...direct.json,
      id: `cmpl-${json.id}`,
      created: Math.floor(json.created_ms / 1000),
    });
    expect(json.answer.choices[1]).toMatchObject({ token_ids: [7], logprobs: { tokens: [' good'] } });
  });

  it.each<[string, object, number, string | null]>([
    ['no type', { task: 'sst2', input: 'a' }, 400, 'type'],
    ['an unknown type', { ...CLASSIFY, type: 'tokenize' }, 400, 'type'],
    ['a field of the other type', { ...CLASSIFY, prompt: 'a' }, 400, 'prompt'],
    ['no input', { type: 'classify', task: 'sst2' }, 400, 'input'],
    ['task and labels', { ...CLASSIFY, labels: ['a', 'b'] }, 400, 'labels'],
    ['an unknown task', { ...CLASSIFY, task: 'x' }, 400, 'task'],
    ['no prompt', { type: 'completion' }, 400, 'prompt'],
    ['temperature', { type: 'completion', prompt: 'a', temperature: 3 }, 400, 'temperature'],
    ['too many tokens', { type: 'completion', prompt: 'a', max_tokens: 3073 }, 400, 'max_tokens'],
    ['another model', { ...CLASSIFY, model: 'gpt-2' }, 404, 'model'],
    ['a list', [], 400, null],
  ])('refuses %s as the route of the type does', async (_, body, status, param) => {
    const answer = await post(body);
    expect([answer.status, answer.json.error.param]).toEqual([status, param]);
  });

  it('continues the job after its client has gone', async () => {
    server.engine.script = undefined;
    const body = JSON.stringify(CLASSIFY);
    const socket = connect({ host: '127.0.0.1', port: server.running.port });
    socket.write(
      `POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
    await eventually(() => server.engine.runs.length > 0);
    socket.destroy();
    await eventually(() => socket.closed);
    const [run] = server.engine.runs;
    await server.ask('/health/live');
    expect(run!.options.signal.aborted).toBe(false);
    run!.finish();
    expect((await ended(`/v1/jobs/${run!.id}`)).json.status).toBe('completed');
  });

  it('reports why a job failed, but hides messages that may name files', async () => {
    server.engine.script = (run) => run.fail('cannot_run');
    const failed = await ended((await post(CLASSIFY)).headers.location);
    expect(failed.json).toMatchObject({
      status: 'failed',
      answer: null,
      error: {
        message: 'scripted cannot_run',
        type: 'invalid_request_error',
        code: 'cannot_run',
        param: null,
      },
    });
    server.engine.script = (run) => run.fail('io_error');
    const { json } = await ended((await post(CLASSIFY)).headers.location);
    expect(json.error.message).toMatch(/log has the reason under this job id/);
    const line = server.log.find(({ jobId }) => jobId === json.id);
    expect(line).toMatchObject({ msg: 'job failed', level: 50, err: { message: 'scripted io_error' } });
  });

  it('never gives null for a number that is not finite', async () => {
    server.engine.script = (run) =>
      run.finish({
        ...answerTo(run.request),
        kind: 'classify',
        data: [{ label: 'a', scores: { a: Number.NaN } }],
      });
    const { json } = await ended((await post(CLASSIFY)).headers.location);
    expect(json).toMatchObject({ status: 'failed', answer: null, error: { code: 'nonfinite_output' } });
  });

  it('does not log the input', async () => {
    await ended((await post({ ...CLASSIFY, input: 'a very private film' })).headers.location);
    expect(JSON.stringify(server.log)).not.toContain('private');
  });
});

describe('the idempotency key', () => {
  let lastKey = 0;
  const key = () => `key-${lastKey++}`;

  it('creates one job for 100 concurrent requests', async () => {
    const headers = { 'idempotency-key': key() };
    const before = server.engine.started.length;
    const answers = await Promise.all(Array.from({ length: 100 }, () => post(CLASSIFY, headers)));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202]));
    expect(new Set(answers.map(({ json }) => json.id)).size).toBe(1);
    expect(answers.filter(({ headers: h }) => h['idempotent-replayed'] === undefined)).toHaveLength(1);
    await ended(answers[0]!.headers.location);
    expect(server.engine.started.length).toBe(before + 1);
    const late = await post(CLASSIFY, headers);
    expect(late.json).toEqual((await server.ask(String(late.headers.location))).json);
    expect(late.headers['idempotent-replayed']).toBe('true');
  });

  it('compares the meaning of requests, not their text', async () => {
    const headers = { 'idempotency-key': key() };
    const first = await post({ type: 'completion', prompt: 'a' }, headers);
    const same = { max_tokens: 16, prompt: ['a'], model: 'switch-mini', temperature: 0, type: 'completion' };
    expect((await post(same, headers)).json.id).toBe(first.json.id);
    const chat = { type: 'chat', messages: [{ role: 'user', content: 'a' }] };
    const named = { 'idempotency-key': key() };
    const limited = await post({ ...chat, max_tokens: 5 }, named);
    expect((await post({ ...chat, max_completion_tokens: 5 }, named)).json.id).toBe(limited.json.id);
  });

  it('ignores the seed that the server draws for a request without one', async () => {
    const headers = { 'idempotency-key': key() };
    const body = { type: 'completion', prompt: 'a', temperature: 1 };
    const first = await post(body, headers);
    expect((await post(body, headers)).json.id).toBe(first.json.id);
    expect((await post({ ...body, seed: 7 }, headers)).status).toBe(422);
  });

  it.each([
    { type: 'completion', prompt: 'b' },
    { type: 'completion', prompt: 'a', return_token_ids: true },
    { type: 'completion', prompt: 'a', stream: true },
    CLASSIFY,
  ])('is refused with %j after another request', async (other) => {
    const headers = { 'idempotency-key': key() };
    expect((await post({ type: 'completion', prompt: 'a' }, headers)).status).toBe(202);
    const { status, json } = await post(other, headers);
    expect([status, json.error.code]).toEqual([422, 'idempotency_conflict']);
  });

  it.each([['x'.repeat(256)], ['a b'], ['caf\u00e9'], ['']])('refuses %j', async (text) => {
    const { status, json } = await post(CLASSIFY, { 'idempotency-key': text });
    expect([status, json.error.param]).toEqual([400, 'idempotency-key']);
  });

  it('refuses two keys', async () => {
    const body = JSON.stringify(CLASSIFY);
    const answer = await server.raw(
      `POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nidempotency-key: a\r\nidempotency-key: a\r\n` +
        `content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
    expect(answer).toMatch(/^HTTP\/1\.1 400 /);
  });

  it('accepts the longest allowed key and every allowed character', async () => {
    for (const text of ['~'.repeat(255), '!"#$%&\'()*+,-./:;<=>?@[\\]^_`{|}~']) {
      const first = await post(CLASSIFY, { 'idempotency-key': text });
      expect((await post(CLASSIFY, { 'idempotency-key': text })).json.id).toBe(first.json.id);
    }
  });
});

describe('a job', () => {
  it.each([
    ['an unknown id', '/v1/jobs/00000000-0000-4000-8000-000000000000'],
    ['a text that is not an id', '/v1/jobs/..%2f..%2fetc'],
    ['a name of an object', '/v1/jobs/__proto__'],
  ])('is not found under %s', async (_, path) => {
    for (const [method, at] of [
      ['GET', path],
      ['DELETE', path],
      ['GET', `${path}/events`],
    ] as const) {
      const { status, json } = await server.ask(at, { method });
      expect([status, json.error.code]).toEqual([404, 'not_found']);
    }
  });

  it('lists the methods of its routes', async () => {
    const at = `/v1/jobs/00000000-0000-4000-8000-000000000000`;
    for (const [path, allow] of [
      ['/v1/jobs', 'POST'],
      [at, 'GET, DELETE, HEAD'],
      [`${at}/events`, 'GET, HEAD'],
    ]) {
      const { status, headers } = await server.ask(path!, { method: 'PUT' });
      expect([status, headers.allow]).toEqual([405, allow]);
    }
    expect(ROUTES.filter(({ path }) => path.startsWith('/v1/jobs'))).toHaveLength(4);
  });

  it('is cancelled while it runs, and its answer is dropped', async () => {
    const { path, run } = await running();
    expect((await server.ask(path)).json).toMatchObject({ status: 'running', attempts: 1 });
    const { status, json } = await server.ask(path, { method: 'DELETE' });
    expect(status).toBe(200);
    expect(json).toMatchObject({ status: 'cancelled', answer: null, error: { code: 'cancelled' } });
    expect(run.options.signal.aborted).toBe(true);
    expect((await server.ask(path)).json).toEqual(json);
  });

  it('appears in the metrics', async () => {
    const { path } = await running();
    const figure = async (name: string) => {
      const { text } = await server.ask('/metrics');
      return Number(
        text
          .split('\n')
          .find((line) => line.startsWith(`${name} `))
          ?.split(' ')[1],
      );
    };
    expect(await figure('sida_kept_jobs{status="running"}')).toBe(1);
    await server.ask(path, { method: 'DELETE' });
    expect(await figure('sida_kept_jobs{status="running"}')).toBe(0);
    expect(await figure('sida_kept_jobs{status="ended"}')).toBeGreaterThan(10);
    expect(await figure('sida_kept_answers_bytes')).toBeGreaterThan(1_000);
    expect(await figure('sida_kept_repeated_total')).toBeGreaterThanOrEqual(99);
    expect(await figure('sida_kept_conflicts_total')).toBe(5);
    expect(await figure('sida_kept_dropped_total{reason="retention"}')).toBe(0);
  });
});

describe('the limits on jobs', () => {
  let other: TestServer | undefined;
  afterEach(() => other?.close());

  async function start(flags: Parameters<typeof TestServer.start>[0]): Promise<TestServer> {
    other = await TestServer.start(flags);
    other.engine.script = undefined;
    return other;
  }

  it('answers 429 with Retry-After when the queue is full', async () => {
    const { post } = await start({ queueBound: '1' }).then((s) => ({ post: s.post.bind(s) }));
    for (let i = 0; i < 3; i += 1) expect((await post('/v1/jobs', CLASSIFY)).status).toBe(202);
    const { status, headers, json } = await post('/v1/jobs', CLASSIFY);
    expect([status, json.error.code]).toEqual([429, 'queue_full']);
    expect(Number(headers['retry-after'])).toBeGreaterThanOrEqual(1);
  });

  it('ends a job at the deadline of jobs, and drops it after its retention', async () => {
    const s = await start({ jobDeadline: '30ms', jobRetention: '1s', deadline: '60s' });
    const path = String((await s.post('/v1/jobs', CLASSIFY)).headers.location);
    await eventually(async () => (await s.ask(path)).json.status === 'failed');
    const { json } = await s.ask(path);
    expect(json.error).toMatchObject({ code: 'deadline_exceeded' });
    expect(json.error.message).toContain('0.03 s');
    await eventually(async () => (await s.ask(path)).status === 404);
  });

  it('finishes jobs while draining, still answers requests about them, and accepts no new ones', async () => {
    const s = await start({});
    const path = String((await s.post('/v1/jobs', CLASSIFY)).headers.location);
    const drained = s.running.drain(20_000);
    await eventually(async () => (await s.ask('/health/ready')).status === 503);
    expect((await s.post('/v1/jobs', CLASSIFY)).status).toBe(503);
    expect((await s.ask(path)).json.status).toBe('running');
    s.engine.runs[0]!.finish();
    expect(await drained).toBe(true);
  });

  it('gives up jobs at the end of the drain', async () => {
    const s = await start({});
    const path = String((await s.post('/v1/jobs', CLASSIFY)).headers.location);
    expect(await s.running.drain(150)).toBe(false);
    const record = await s.queue.find(path.split('/').at(-1)!, ANYONE.owner);
    expect(record).toMatchObject({ status: 'failed', error: { code: 'shutting_down' } });
  });
});
