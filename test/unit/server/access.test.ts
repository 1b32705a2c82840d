// Who may ask: key, Host and Origin, on every route of the table.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { PUBLIC_PATHS } from '../../../src/server/middleware/auth.js';
import { ROUTES } from '../../../src/server/routes/index.js';
import { TestServer } from './test-server.js';

const KEY = 'correct horse battery staple';

describe('with a key', () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await TestServer.start({ apiKey: KEY, host: '127.0.0.1' });
    server.engine.onControl = ({ kind }) => {
      if (kind === 'experts') return { kind, layers: [] };
      if (kind === 'start-profile') return { kind };
      if (kind === 'stop-profile') return { kind, written: null };
      return { kind, usage: server.engine.model!.usage };
    };
  });
  afterAll(() => server.close());

  it.each<[string, Record<string, string>]>([
    ['no key', {}],
    ['a wrong key', { authorization: 'Bearer wrong' }],
    ['the beginning of the key', { authorization: `Bearer ${KEY.slice(0, -1)}` }],
    ['more than the key', { authorization: `Bearer ${KEY}x` }],
    ['an empty key', { authorization: 'Bearer ' }],
    ['another scheme', { authorization: `Basic ${KEY}` }],
    ['the scheme in small letters', { authorization: `bearer ${KEY}` }],
    ['the key in another header', { 'x-api-key': KEY }],
  ])('refuses %s on every route but the public ones', async (_, headers) => {
    for (const { method, path } of ROUTES) {
      const { status } = await server.ask(path, { method: method.toUpperCase(), headers });
      if (PUBLIC_PATHS.has(path)) expect([path, status]).toEqual([path, 200]);
      else expect([path, status]).toEqual([path, 401]);
    }
  });

  it.each([
    '//v1/models',
    '/V1/models',
    '/v1/../admin/experts',
    '/health/live/',
    '/health/live/../../v1/models',
    '/nowhere',
    '/?key=x',
  ])('refuses %s too', async (path) => {
    const answer = await server.ask(path);
    expect(answer.status).toBe(401);
    expect(answer.headers['www-authenticate']).toBe('Bearer');
    expect(answer.json.error.type).toBe('authentication_error');
  });

  it('refuses the key in the query', async () => {
    expect((await server.ask(`/v1/models?api_key=${encodeURIComponent(KEY)}`)).status).toBe(401);
  });

  it('takes the key', async () => {
    const headers = { authorization: `Bearer ${KEY}` };
    const job = await server.post('/v1/jobs', { type: 'completion', prompt: [5] }, headers);
    for (const { method, path, body } of ROUTES) {
      const id = path.startsWith('/v1/jobs/') ? job.json.id : 'switch-mini';
      const { status } = await server.ask(path.replace(':id', id), {
        method: method.toUpperCase(),
        headers,
      });
      // Those that need a body miss it.
      expect([path, status]).toEqual([path, body === undefined ? 200 : 415]);
    }
  });

  it('never logs it', () => {
    expect(JSON.stringify(server.log)).not.toContain(KEY);
  });
});

describe('Host and Origin', () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await TestServer.start();
  });
  afterAll(() => server.close());

  it.each(['localhost', 'LocalHost:8080', '127.0.0.1:1', '127.9.9.9', '[::1]:8080'])(
    'serves host %s',
    async (host) => {
      expect((await server.ask('/health/live', { headers: { host } })).status).toBe(200);
    },
  );

  it.each([
    'evil.example',
    'localhost.',
    'localhost.evil.example',
    '127.0.0.1.evil.example',
    '[::2]',
    '128.0.0.1',
    'a b',
    'localhost:99999999',
    '@localhost',
  ])('refuses host %j', async (host) => {
    const { status, json } = await server.ask('/v1/models', { headers: { host } });
    expect([status, json.error.code]).toEqual([403, 'forbidden']);
  });

  it('serves pages of its own origin', async () => {
    const headers = { host: 'localhost:8080', origin: 'http://localhost:8080' };
    expect((await server.ask('/v1/models', { headers })).status).toBe(200);
  });

  it.each(['http://evil.example', 'null', 'http://localhost:3000', 'http://localhost', 'file://', ''])(
    'refuses origin %j',
    async (origin) => {
      const { status, headers } = await server.ask('/v1/models', {
        headers: { host: 'localhost:8080', origin },
      });
      expect(status).toBe(403);
      expect(headers['access-control-allow-origin']).toBeUndefined();
    },
  );

  it('refuses a preflight', async () => {
    const headers = { origin: 'http://evil.example', 'access-control-request-method': 'POST' };
    expect((await server.ask('/v1/classify', { method: 'OPTIONS', headers })).status).toBe(403);
  });

  it('serves any name when it listens on every address, behind its key', async () => {
    const open = await TestServer.start({ host: '0.0.0.0', apiKey: KEY });
    const headers = { host: 'sida.example', authorization: `Bearer ${KEY}` };
    expect((await open.ask('/v1/models', { headers })).status).toBe(200);
    await open.close();
  });
});
