// Checks of key, Host and Origin on every route of the table.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hashKey, newApiKey } from '../../../src/access/api-key.js';
import { keyLine } from '../../../src/access/key-file.js';
import { SCOPES, type Scope } from '../../../src/access/scopes.js';
import { resolveServeOptions } from '../../../src/config/resolve.js';
import type { EngineCounters } from '../../../src/protocol/engine-messages.js';
import { ROUTES } from '../../../src/server/routes/index.js';
import {
  bearer,
  FOREIGN_HOSTS,
  FOREIGN_ORIGINS,
  methodOf,
  PUBLIC,
  pathTricks,
  preflight,
  requestTo,
  statusWithoutKey,
  withId,
  wrongKeys,
} from '../../support/access-cases.js';
import { MODEL, QUOTE, SPLIT } from '../queue/scripted-engine.js';
import { TestServer } from './test-server.js';

/** What a browser asks for when the official `openai` client sends a request, sorted as browsers sort it. */
const OPENAI_HEADERS = [
  'authorization',
  'content-type',
  'idempotency-key',
  'openai-organization',
  'openai-project',
  'x-stainless-arch',
  'x-stainless-custom-poll-interval',
  'x-stainless-helper-method',
  'x-stainless-lang',
  'x-stainless-os',
  'x-stainless-package-version',
  'x-stainless-poll-helper',
  'x-stainless-retry-count',
  'x-stainless-runtime',
  'x-stainless-runtime-version',
  'x-stainless-timeout',
].join();

const KEY = 'correct horse battery staple';

function answerControls(server: TestServer): void {
  server.engine.onControl = ({ kind }) => {
    if (kind === 'experts') return { kind, layers: [] };
    if (kind === 'predictor') return { kind, enabled: true, needed: true, routeAhead: 0 };
    if (kind === 'quote') return { kind, quote: QUOTE };
    if (kind === 'start-profile') return { kind };
    if (kind === 'stop-profile') return { kind, written: null };
    return { kind, usage: server.engine.model!.usage, split: SPLIT };
  };
}

it('every route but those of /health and the page has a scope', () => {
  expect(ROUTES.filter(({ scope }) => scope === 'public').map(({ path }) => path)).toEqual(PUBLIC);
});

describe('with a key', () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await TestServer.start({ apiKey: KEY, host: '127.0.0.1' });
    answerControls(server);
  });
  afterAll(() => server.close());

  const send = (path: string, route: (typeof ROUTES)[number], headers: Record<string, string> = {}) =>
    server.ask(path, requestTo(route, headers));
  const nothingHandled = () => expect([server.engine.started, server.engine.controls]).toEqual([[], []]);

  it.each(wrongKeys(KEY))('refuses %s on every route but the public ones', async (_, headers) => {
    for (const route of ROUTES) {
      const { status, text } = await send(withId(route.path), route, headers);
      expect([route.path, status]).toEqual([route.path, PUBLIC.includes(route.path) ? 200 : 401]);
      expect(text).not.toContain(KEY);
    }
    nothingHandled();
  });

  it.each(pathTricks(KEY))('refuses %s on every route, and runs nothing', async (_, trick) => {
    for (const route of ROUTES) {
      const path = trick(withId(route.path));
      expect([path, (await send(path, route)).status]).toEqual([path, statusWithoutKey(path)]);
    }
    nothingHandled();
  });

  it.each(FOREIGN_HOSTS)('refuses host %s on every route, even with the key', async (host) => {
    for (const route of ROUTES) {
      const { status } = await send(withId(route.path), route, { host, ...bearer(KEY) });
      expect([route.path, status]).toEqual([route.path, 403]);
    }
    nothingHandled();
  });

  it.each(['/nowhere', '/admin', '/assets', '/admin/budget?key=x', '/version', '/metrics/'])(
    'needs a key on %s',
    async (path) => {
      const answer = await server.ask(path);
      expect(answer.status).toBe(401);
      expect(answer.headers['www-authenticate']).toBe('Bearer');
      expect(answer.json.error.type).toBe('authentication_error');
    },
  );

  it('tells a key that it does not know from none', async () => {
    const without = await server.ask('/nowhere');
    const wrong = await server.ask('/nowhere', { headers: { authorization: 'Bearer wrong' } });
    expect(without.json.error.message).toBe(
      'Expected the authorization header to be "Bearer" and an API key',
    );
    expect(wrong.json.error.message).toBe(
      'This server does not know the API key of the authorization header',
    );
  });

  it('accepts the name of the scheme in any case', async () => {
    const headers = { authorization: `bearer ${KEY}` };
    expect((await server.ask('/v1/models', { headers })).status).toBe(200);
  });

  it('accepts the key', async () => {
    const job = await server.post('/v1/jobs', { type: 'completion', prompt: [5] }, bearer(KEY));
    for (const route of ROUTES) {
      const path = route.path.startsWith('/v1/jobs/')
        ? route.path.replace(':id', job.json.id)
        : withId(route.path);
      const { status } = await (route.path === '/admin/profile'
        ? server.ask(path, { method: 'POST', headers: bearer(KEY) })
        : server.ask(path, { ...requestTo(route, bearer(KEY)), method: methodOf(route) }));
      // The scripted engine writes no profile, so the request has no body and gets 415.
      // No request of that id is in flight.
      const special = {
        '/admin/profile': 415,
        '/v1/jobs': 202,
        '/api/pull': 400,
        '/admin/requests/:id': 404,
      };
      const expected = special[route.path as keyof typeof special] ?? 200;
      expect([path, status]).toEqual([path, expected]);
    }
  });

  it('never logs the key', () => {
    expect(JSON.stringify(server.log)).not.toContain(KEY);
  });
});

describe('keys with scopes', () => {
  const keys = { infer: newApiKey(), admin: newApiKey(), metrics: newApiKey(), both: newApiKey() };
  const file = join(mkdtempSync(join(tmpdir(), 'sida-scopes-')), 'keys');
  const line = (scope: Scope) => keyLine({ name: scope, scopes: [scope], hash: hashKey(keys[scope]) });
  const both = keyLine({ name: 'both', scopes: ['infer', 'admin'], hash: hashKey(keys.both) });
  writeFileSync(file, [...SCOPES.map(line), both].join('\n'), { mode: 0o600 });
  let server: TestServer;
  beforeAll(async () => {
    server = await TestServer.start({ apiKeys: file });
    answerControls(server);
  });
  afterAll(async () => {
    await server.close();
    rmSync(dirname(file), { recursive: true });
  });

  it.each(SCOPES)('%s gives access to its routes and no others', async (scope) => {
    for (const route of ROUTES) {
      const answer = await server.ask(withId(route.path), {
        method: methodOf(route),
        headers: bearer(keys[scope]),
      });
      const open = [scope, 'any', 'public'].includes(route.scope);
      // The body is read after the scope check. Routes that need a body fail without one.
      const found = /^\/(v1\/jobs|admin\/requests)\//.test(route.path) ? 404 : 200;
      const expected = open ? (route.body === undefined ? found : 415) : 403;
      expect([route.path, answer.status]).toEqual([route.path, expected]);
      if (!open && methodOf(route) !== 'HEAD') expect(answer.text).toMatch(/lacks the scope/);
    }
  });

  const explained = (key: string, path: string, { include = ['experts'], ...body }: { include?: string[] }) =>
    server.post(path, { ...body, include }, bearer(key));
  const EXPLAINED: [path: string, body: object][] = [
    ['/v1/classify', { task: 'sst2', input: 'a' }],
    ['/v1/chat/completions', { messages: [{ role: 'user', content: 'a' }], stream: true }],
    ['/v1/completions', { prompt: [5] }],
    ['/v1/completions', { prompt: [5], include: ['token_experts'] }],
    ['/v1/responses', { input: 'a' }],
    ['/v1/embeddings', { input: 'a' }],
    ['/v1/jobs', { type: 'completion', prompt: [5] }],
  ];

  it.each(EXPLAINED)('%s reports experts to keys with the scope admin only', async (path, body) => {
    const refused = await explained(keys.infer, path, body);
    expect([refused.status, refused.json.error.param]).toEqual([403, 'include']);
    expect(refused.json.error.message).toMatch(/lacks the scope "admin"/);
    const both = await explained(keys.both, path, body);
    expect(both.status).toBe(path === '/v1/jobs' ? 202 : 200);
    expect((await explained(keys.infer, path, { ...body, include: [] })).status).toBe(both.status);
  });

  it('/api/ps tells keys with the scope admin only when a model was used last, and what it holds now', async () => {
    const usage = { ...MODEL.usage, usedBytes: 12_345 };
    server.engine.counters = { usage } as EngineCounters;
    const [shown, hidden] = await Promise.all(
      [keys.both, keys.infer].map(async (key) => {
        const { json } = await server.ask('/api/ps', { headers: bearer(key) });
        return json.models[0];
      }),
    );
    expect(shown).toMatchObject({ size: 12_345 + usage.host.usedBytes, expires_at: expect.any(String) });
    expect(hidden).not.toHaveProperty('expires_at');
    expect(hidden.size).not.toBe(shown.size);
    server.engine.counters = undefined;
  });

  it('appear in the log by name, without key or hash', () => {
    expect(new Set(server.log.map(({ key }) => key))).toEqual(new Set([...SCOPES, 'both', undefined]));
    for (const key of Object.values(keys)) expect(JSON.stringify(server.log)).not.toContain(key);
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

  it('serves pages of its own origin', async () => {
    const headers = { host: 'localhost:8080', origin: 'http://localhost:8080' };
    expect((await server.ask('/v1/models', { headers })).status).toBe(200);
  });

  it.each([
    [{ host: 'sida.example' }, '--allowed-hosts'],
    [{ host: 'localhost:8080', origin: 'https://page.example' }, '--allowed-origins'],
  ])('names the option that permits %j', async (headers, option) => {
    const { status, json } = await server.ask('/v1/models', { headers });
    expect([status, json.error.message]).toEqual([403, expect.stringContaining(option)]);
  });

  it.each(FOREIGN_ORIGINS)('refuses origin %j on every route', async (origin) => {
    for (const route of ROUTES) {
      const headers = { host: 'localhost:8080', origin };
      const answer = await server.ask(withId(route.path), requestTo(route, headers));
      expect([route.path, answer.status]).toEqual([route.path, 403]);
      expect(answer.headers['access-control-allow-origin']).toBeUndefined();
    }
  });

  it('refuses a preflight of every route', async () => {
    for (const route of ROUTES) {
      const answer = await server.ask(withId(route.path), preflight(route));
      expect([route.path, answer.status]).toEqual([route.path, 403]);
      expect(answer.headers['access-control-allow-origin']).toBeUndefined();
    }
  });

  it('accepts any host name when it listens on every address and requires a key', async () => {
    const open = await TestServer.start({ host: '0.0.0.0', apiKey: KEY });
    for (const host of ['sida.example', '10.1.2.3:8080', '[fe80::1]']) {
      expect((await open.ask('/v1/models', { headers: { host, ...bearer(KEY) } })).status).toBe(200);
    }
    await open.close();
  });
});

describe('--allowed-hosts and --allowed-origins', () => {
  const APP = 'https://app.example';
  let server: TestServer;
  beforeAll(async () => {
    server = await TestServer.start({
      host: '0.0.0.0',
      apiKey: KEY,
      allowedHosts: 'SIDA.example, api.example',
      allowedOrigins: `${APP},http://localhost:3000`,
    });
  });
  afterAll(() => server.close());
  const get = (headers: Record<string, string>) =>
    server.ask('/v1/models', { headers: { host: 'sida.example', ...bearer(KEY), ...headers } });

  it.each([
    'sida.example',
    'Sida.Example:443',
    'api.example',
    'localhost',
    '127.0.0.1:8080',
    '10.1.2.3:8080',
  ])('serve host %s', async (host) => {
    expect((await get({ host })).status).toBe(200);
  });

  it.each([
    'evil.example',
    'sida.example.',
    'x.sida.example',
    'sida.example.evil',
    'sida',
    '10.1.2.3.example',
  ])('refuse host %s, with the key and a good origin', async (host) => {
    expect((await get({ host, origin: APP })).status).toBe(403);
  });

  it('let pages of a listed origin read answers, including refusals', async () => {
    for (const [headers, status] of [
      [{}, 200],
      [{ authorization: 'Bearer wrong' }, 401],
    ] as const) {
      const answer = await get({ origin: APP, ...headers });
      expect(answer.status).toBe(status);
      expect(answer.headers['access-control-allow-origin']).toBe(APP);
      expect(answer.headers.vary).toMatch(/origin/i);
      expect(answer.headers['access-control-expose-headers']).toMatch(/location, idempotent-replayed/);
      expect(answer.headers['access-control-allow-credentials']).toBeUndefined();
    }
  });

  it('answer preflights of listed origins without a key, and no other request', async () => {
    const ask = (headers: Record<string, string>) =>
      server.ask('/v1/classify', { method: 'OPTIONS', headers: { host: 'sida.example', ...headers } });
    const preflight = { 'access-control-request-method': 'POST' };
    const answer = await ask({ origin: APP, ...preflight });
    expect([answer.status, answer.text]).toEqual([204, '']);
    expect(answer.headers['access-control-allow-headers']).toMatch(/authorization, content-type/);
    const asked = await ask({ origin: APP, ...preflight, 'access-control-request-headers': OPENAI_HEADERS });
    expect([asked.status, asked.headers['access-control-allow-origin']]).toEqual([204, APP]);
    expect(asked.headers['access-control-allow-headers']).toBe(OPENAI_HEADERS);
    for (const odd of ['a b', 'x\u00e9', `${'x'.repeat(65)}`, ',', 'a,,b']) {
      const answer = await ask({ origin: APP, ...preflight, 'access-control-request-headers': odd });
      expect(answer.headers['access-control-allow-headers']).toMatch(/^authorization, content-type/);
    }
    expect((await ask({ origin: APP })).status).toBe(401);
    expect((await ask(preflight)).status).toBe(401);
    const foreign = await ask({
      origin: 'https://evil.example',
      ...preflight,
      'access-control-request-headers': OPENAI_HEADERS,
    });
    expect([foreign.status, foreign.headers['access-control-allow-origin']]).toEqual([403, undefined]);
  });

  it.each([
    'https://evil.example',
    'null',
    'http://app.example',
    'https://app.example:8443',
    'https://app.example/',
    'https://APP.example',
    'https://app.example.evil',
    'https://x.app.example',
    '*',
    '',
  ])('refuse origin %j', async (origin) => {
    const answer = await get({ origin });
    expect([answer.status, answer.headers['access-control-allow-origin']]).toEqual([403, undefined]);
  });

  it('must be host names and origins', () => {
    for (const hosts of ['', 'a,,b', 'a/b', 'https://a', 'a:80', '*.a']) {
      expect(() => resolveServeOptions({ flags: { model: 'm', allowedHosts: hosts }, env: {} })).toThrow(
        /"--allowed-hosts" option to be host names/,
      );
    }
    for (const origins of ['', 'a', 'null', '*', 'https://a/', 'https://a/b', 'file:///', 'https://A']) {
      expect(() => resolveServeOptions({ flags: { model: 'm', allowedOrigins: origins }, env: {} })).toThrow(
        /"--allowed-origins" option to be origins/,
      );
    }
  });
});
