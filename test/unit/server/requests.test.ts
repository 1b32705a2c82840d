// Checks of requests (type, encoding, size, UTF-8, depth, values) and the headers of every answer.
import { Agent } from 'node:http';
import { gzipSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { LIMITS } from '../../../src/server/limits.js';
import { ROUTES } from '../../../src/server/routes/index.js';
import { MALFORMED_BODIES, MALFORMED_HTTP } from '../../support/malformed.js';
import { TestServer } from './test-server.js';

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start();
});
afterEach(async () => {
  // The server still answers a valid request after each invalid one.
  expect((await server.post('/v1/classify', { task: 'sst2', input: 'a fine film' })).status).toBe(200);
});
afterAll(() => server.close());

const JSON_TYPE = { 'content-type': 'application/json' };

describe('request id', () => {
  it('is generated when the client sends none', async () => {
    const { headers } = await server.ask('/health/live');
    expect(headers['x-request-id']).toMatch(/^req_[0-9a-f]{32}$/);
  });

  it('is taken from the client when it is valid', async () => {
    const ask = async (id: string) =>
      (await server.ask('/nowhere', { headers: { 'x-request-id': id } })).headers;
    expect((await ask('abc-1.2_3:4'))['x-request-id']).toBe('abc-1.2_3:4');
    for (const id of ['', 'a b', 'x'.repeat(129), '<script>', 'a"b']) {
      expect((await ask(id))['x-request-id']).toMatch(/^req_/);
    }
  });
});

describe('error answers', () => {
  it.each<[string, string, string, number, string]>([
    ['unknown route', 'GET', '/v2/nothing', 404, 'not_found'],
    ['route with a double slash', 'POST', '//v1/classify', 404, 'not_found'],
    ['route in capitals', 'GET', '/V1/models', 404, 'not_found'],
    ['unknown model', 'GET', '/v1/models/other', 404, 'model_not_found'],
    ['undecodable path', 'GET', '/v1/models/%ff', 400, 'invalid_request'],
    ['NUL in a model name', 'GET', '/v1/models/%00', 404, 'model_not_found'],
    ['path out of the root', 'GET', '/v1/models/..%2f..%2fetc%2fpasswd', 404, 'model_not_found'],
  ])('have one shape: %s', async (_, method, path, status, code) => {
    const answer = await server.ask(path, { method });
    expect(answer.status).toBe(status);
    expect(answer.json).toEqual({
      error: {
        message: expect.any(String),
        type: 'invalid_request_error',
        code,
        param: code === 'model_not_found' ? 'model' : null,
      },
    });
    expect(answer.headers['x-request-id']).toBeTruthy();
    expect(answer.text).not.toMatch(/node_modules|\/work\/|at .*\.(ts|js):\d/);
  });

  it('name the allowed methods of every route', async () => {
    for (const { path } of ROUTES) {
      const allowed = ROUTES.filter((route) => route.path === path).map(({ method }) => method.toUpperCase());
      if (allowed.includes('GET')) allowed.push('HEAD');
      for (const method of ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'TRACE', 'PROPFIND']) {
        if (allowed.includes(method)) continue;
        const answer = await server.ask(path.replace(':id', 'switch-mini'), { method });
        expect([path, method, answer.status]).toEqual([path, method, 405]);
        expect(answer.headers.allow?.split(', ').sort()).toEqual([...allowed].sort());
        expect(answer.headers['x-request-id']).toBeTruthy();
        expect(answer.headers['access-control-allow-origin']).toBeUndefined();
      }
    }
  });

  it('leave messages that may name files to the log', async () => {
    server.engine.script = (run) => run.fail('io_error');
    const answer = await server.post('/v1/tokenize', { input: 'a' }, { 'x-request-id': 'find-me' });
    server.engine.script = (run) => run.finish();
    expect(answer.status).toBe(500);
    expect(answer.json.error).toMatchObject({
      code: 'io_error',
      message: expect.not.stringContaining('scripted'),
    });
    const line = server.log.find(({ requestId, level }) => requestId === 'find-me' && level === 50);
    expect(JSON.stringify(line)).toContain('scripted io_error');
  });
});

describe('body', () => {
  it.each(MALFORMED_BODIES)('is refused: %s', async (_, body, status, code, path = '/v1/classify') => {
    const answer = await server.ask(path, { method: 'POST', body, headers: JSON_TYPE });
    expect([answer.status, answer.json?.error.code]).toEqual([status, code]);
    expect(answer.json.error.message.length).toBeLessThan(600);
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
  });

  it('may not have a key twice, however it is spelled, at any depth', async () => {
    const body = '{"task":"sst2","input":[{"text":"a"},{"text":"a","te\\u0078t":"b"}]}';
    const { status, json } = await server.ask('/v1/classify', { method: 'POST', body });
    expect([status, json.error.code, json.error.param]).toEqual([400, 'invalid_json', 'input.1.text']);
    expect(json.error.message).toBe('The request body has the key "text" twice in "input.1"');
  });

  it('may contain brackets and quotes in strings', async () => {
    const body = { task: 'sst2', input: `\\"${'[{'.repeat(100)}` };
    expect((await server.post('/v1/classify', body)).status).toBe(200);
  });

  it.each([
    'text/plain',
    'application/x-www-form-urlencoded',
    'application/json; charset=latin1',
    'application/jsonx',
    '',
  ])('must have a JSON content type, not %j', async (type) => {
    const answer = await server.ask('/v1/classify', {
      method: 'POST',
      body: '{}',
      headers: { 'content-type': type },
    });
    expect([answer.status, answer.json.error.code]).toEqual([415, 'unsupported_media_type']);
  });

  it('may declare its charset', async () => {
    const body = { task: 'sst2', input: 'a' };
    const headers = { 'content-type': 'application/json; charset=UTF-8' };
    expect((await server.post('/v1/classify', body, headers)).status).toBe(200);
  });

  it.each(['gzip', 'br', 'deflate', 'gzip, identity'])('must not be compressed: %s', async (encoding) => {
    const body = gzipSync(JSON.stringify({ task: 'sst2', input: 'a' }));
    const headers = { ...JSON_TYPE, 'content-encoding': encoding };
    const answer = await server.ask('/v1/classify', { method: 'POST', body, headers });
    expect([answer.status, answer.json.error.code]).toEqual([415, 'unsupported_media_type']);
  });

  it('is limited in size while it arrives in chunks', async () => {
    const chunk = `${(65_536).toString(16)}\r\n${' '.repeat(65_536)}\r\n`;
    const head =
      'POST /v1/classify HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n';
    const answer = await server.raw(head + chunk.repeat(17));
    expect(answer).toMatch(/^HTTP\/1\.1 413 /);
    expect(answer).toMatch(/x-request-id: req_/);
  });

  it('is limited by the texts that the model takes', async () => {
    const input = 'é'.repeat(750_000);
    const answer = () => server.post('/v1/tokenize', { input });
    expect((await answer()).json.error).toMatchObject({ code: 'request_too_large' });
    const before = server.engine.model!;
    server.engine.model = { ...before, maxInputBytes: 1_499_999 };
    expect((await answer()).json.error).toMatchObject({ details: { bytes: 1_500_000, limit: 1_499_999 } });
    server.engine.model = { ...before, maxInputBytes: 1_500_000 };
    expect((await answer()).status).toBe(200);
    server.engine.model = before;
  });

  it('is refused where large ones arrive with too many bytes together', async () => {
    const before = server.engine.model!;
    const limit = LIMITS.bodiesBytes;
    server.engine.model = { ...before, maxInputBytes: 1_500_000 };
    try {
      Object.assign(LIMITS, { bodiesBytes: 1 << 20 });
      const { status, json } = await server.post('/v1/tokenize', { input: 'é'.repeat(750_000) });
      expect([status, json.error.code]).toEqual([429, 'queue_full']);
      expect((await server.post('/v1/tokenize', { input: 'é'.repeat(30_000) })).status).toBe(200);
    } finally {
      Object.assign(LIMITS, { bodiesBytes: limit });
      server.engine.model = before;
    }
  });

  it('is read for a while after its refusal, so that the client gets the answer', async () => {
    // By default Node closes the connection right after this answer, and a reset can overtake it.
    for (const headers of [{}, { connection: 'close' }, { connection: 'keep-alive' }]) {
      const body = Buffer.alloc(32 << 20, 0x20);
      const answer = await server.ask('/v1/classify', { method: 'POST', body, headers });
      expect([answer.status, answer.json.error.code]).toEqual([413, 'request_too_large']);
    }
  });

  it('that was refused does not prevent the next request on the connection', async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const refused = await server.ask('/nowhere', { method: 'POST', body: 'hello', agent });
    const answer = await server.ask('/health/live', { agent });
    agent.destroy();
    expect([refused.status, answer.status, answer.headers.connection]).toEqual([404, 200, 'keep-alive']);
  });

  it('is requested with 100 Continue only after the headers are checked', async () => {
    const expecting = (length: number) =>
      `POST /v1/classify HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nexpect: 100-continue\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n\r\n`;
    expect(await server.raw(expecting(2 << 20))).toMatch(/^HTTP\/1\.1 413 /);
    const body = '{"task":"sst2","input":"a"}';
    expect(await server.raw(expecting(body.length) + body)).toMatch(
      /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 /,
    );
  });
});

describe('raw HTTP', () => {
  it.each(MALFORMED_HTTP)('answers %s', async (_, bytes, status) => {
    const answer = await server.raw(bytes);
    expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
    expect(answer).toMatch(/x-request-id: /);
    expect(JSON.parse(answer.slice(answer.indexOf('\r\n\r\n'))).error.code).toBeTruthy();
  });
});
