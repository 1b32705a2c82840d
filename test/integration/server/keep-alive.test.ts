// Models that are loaded when a request comes, within a budget that holds one of them at a time.
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hashKey, newApiKey } from '../../../src/access/api-key.js';
import { keyLine } from '../../../src/access/key-file.js';
import type { Scope } from '../../../src/access/scopes.js';
import { ask } from '../../support/http-client.js';
import { REPO, ServerProcess } from '../../support/server-process.js';
import { SidaProcess } from '../../support/sida-process.js';

const folder = mkdtempSync(join(tmpdir(), 'sida-folder-'));
const NAMES = ['olmoe-mini', 'switch-words'];
for (const name of NAMES) symlinkSync(join(REPO, 'models', name), join(folder, name));
afterAll(() => rmSync(folder, { recursive: true }));

/** Either of the models needs most of it. */
const TOTAL = 56 * 1024 ** 2;
const CHAT = {
  model: 'olmoe-mini',
  messages: [{ role: 'user', content: 'What kind of thing is a violin?' }],
};
const CLASSIFY = { model: 'switch-words', task: 'category', input: 'violin' };

async function chatted(server: ServerProcess): Promise<string> {
  const { status, body } = await server.post('/v1/chat/completions', CHAT);
  expect(status, JSON.stringify(body)).toBe(200);
  return body.choices[0].message.content;
}

async function classified(server: ServerProcess): Promise<string> {
  const { status, body } = await server.post('/v1/classify', CLASSIFY);
  expect(status, JSON.stringify(body)).toBe(200);
  return body.data[0].label;
}

async function states(server: ServerProcess): Promise<Record<string, string>> {
  const { data } = (await server.get('/v1/models')).body;
  return Object.fromEntries(data.map(({ id, state }: { id: string; state: string }) => [id, state]));
}

describe('a folder of models', () => {
  let server: ServerProcess;
  beforeAll(async () => {
    server = await ServerProcess.start([folder, '--memory-budget', String(TOTAL), '--keep-alive', '1s']);
  });
  afterAll(async () => {
    expect(await server.stop()).toBe(0);
  });

  it('is served without an engine until a request comes', async () => {
    expect(server.enginePids()).toEqual([]);
    expect(await states(server)).toEqual({ 'olmoe-mini': 'idle', 'switch-words': 'idle' });
    expect(server.output).toContain('loads a model at its first request: olmoe-mini and switch-words');
  });

  it('answers requests of all models at once, and holds one at a time', async () => {
    let [most, starts, engine] = [0, 0, 0];
    const watch = setInterval(() => {
      const [first = 0, ...others] = server.enginePids();
      most = Math.max(most, others.length + 1);
      if (first !== 0 && first !== engine) starts += 1;
      engine = first;
    }, 20);
    try {
      const answers = await Promise.all(
        Array.from({ length: 12 }, (_, i) => (i % 2 === 0 ? chatted(server) : classified(server))),
      );
      expect(new Set(answers)).toEqual(
        new Set(['violin is a kind of bowed stringed instrument.', 'artifact']),
      );
    } finally {
      clearInterval(watch);
    }
    expect(most).toBe(1);
    // Those that wait for the same model are let in together.
    expect(starts).toBeLessThanOrEqual(3);
  });

  it('a model under constant use makes room for one that is asked for', async () => {
    let over = false;
    const load = (async () => {
      while (!over) await chatted(server);
    })();
    await delay(500);
    expect(await classified(server)).toBe('artifact');
    over = true;
    await load;
  });

  it('a client that leaves while its model is loaded harms nobody', async () => {
    await chatted(server);
    const left = new AbortController();
    const gone = fetch(`${server.url}/v1/classify`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(CLASSIFY),
      signal: left.signal,
    });
    await delay(300);
    left.abort();
    await expect(gone).rejects.toThrow();
    expect(await classified(server)).toBe('artifact');
  });

  it('a job whose client has left keeps its model until it has ended', async () => {
    await classified(server);
    const accepted = await server.post('/v1/jobs', { type: 'chat', ...CHAT });
    expect(accepted.status, JSON.stringify(accepted.body)).toBe(202);
    expect(await classified(server)).toBe('artifact');
    const { body } = await server.get(`/v1/jobs/${accepted.body.id}`);
    expect([body.status, body.error]).toEqual(['completed', null]);
  });

  it('names what is loaded, and keeps and unloads it as requests of Ollama ask', async () => {
    const load = async (keep_alive: unknown) => {
      const { status, body } = await server.post('/api/generate', { model: 'olmoe-mini:latest', keep_alive });
      expect(status, JSON.stringify(body)).toBe(200);
      return body.done_reason;
    };
    const running = async () => (await server.get('/api/ps')).body.models;
    const unloaded = async () => {
      await server.until(async () => (await states(server))['olmoe-mini'] === 'idle');
      await server.until(() => server.enginePids().length === 0);
    };
    expect(await load('1h')).toBe('load');
    const ps = new SidaProcess(['ps', '--url', server.url]);
    expect(await ps.exit).toBe(0);
    expect(ps.output).toMatch(/olmoe-mini +ready +\S+ MiB/);
    expect(ps.output).toMatch(/switch-words +idle/);
    // Longer than the keep-alive of the server.
    await delay(1_500);
    const [{ name, expires_at }] = await running();
    expect(name).toBe('olmoe-mini:latest');
    expect(Date.parse(expires_at) - Date.now()).toBeGreaterThan(3_000_000);
    expect(await load(0)).toBe('unload');
    await unloaded();
    expect(await running()).toEqual([]);
    // A model that is not loaded stays so.
    expect(await load(0)).toBe('unload');
    expect(server.enginePids()).toEqual([]);
    await load(undefined);
    await unloaded();
    expect((await server.get('/health/ready')).status).toBe(200);
    expect(await chatted(server)).toBe('violin is a kind of bowed stringed instrument.');
  });

  it('a budget that is changed holds when the model is loaded again', async () => {
    await chatted(server);
    const smaller = { device: String(50 * 1024 ** 2) };
    const changed = await ask(server.port, '/admin/budget?model=olmoe-mini', {
      method: 'PUT',
      body: smaller,
    });
    expect(changed.status, changed.text).toBe(200);
    await classified(server);
    await chatted(server);
    const { body } = await server.get('/admin/budget?model=olmoe-mini');
    expect(body.device.budget_bytes).toBe(50 * 1024 ** 2);
  });
});

it('no key of several decides how long the others find a model loaded, but one with the scope admin', async () => {
  const keys = join(mkdtempSync(join(tmpdir(), 'sida-keep-')), 'keys');
  const [user, admin] = [newApiKey(), newApiKey()];
  const line = (name: string, key: string, scopes: Scope[]) => keyLine({ name, scopes, hash: hashKey(key) });
  const lines = [line('user', user, ['infer']), line('root', admin, ['infer', 'admin'])];
  writeFileSync(keys, lines.join('\n'), { mode: 0o600 });
  const server = await ServerProcess.start([folder, '--keep-alive', '1h', '--api-keys', keys]);
  const unload = async (key: string) => {
    const headers = { authorization: `Bearer ${key}` };
    const body = { model: 'olmoe-mini', keep_alive: 0 };
    return (await ask(server.port, '/api/generate', { method: 'POST', headers, body })).json.done_reason;
  };
  expect(await unload(user)).toBe('load');
  // Longer than the server takes to find an unused model.
  await delay(1_000);
  expect(server.enginePids().length).toBe(1);
  expect(await unload(admin)).toBe('unload');
  await server.until(() => server.enginePids().length === 0);
  expect(await server.stop()).toBe(0);
});

it('a model that cannot be opened is refused, and the others are served on', async () => {
  const damaged = mkdtempSync(join(tmpdir(), 'sida-folder-'));
  symlinkSync(join(REPO, 'models/switch-words'), join(damaged, 'switch-words'));
  const config = JSON.stringify({ model_type: 'olmoe' });
  const model = mkdtempSync(join(damaged, 'broken-'));
  writeFileSync(join(model, 'config.json'), config);
  const server = await ServerProcess.start([damaged, '--memory-budget', 'switch-words=60%']);
  try {
    const name = model.slice(damaged.length + 1);
    const { status, body } = await server.post('/v1/completions', { model: name, prompt: 'a' });
    expect([status, body.error.code]).toEqual([503, 'not_ready']);
    expect(await classified(server)).toBe('artifact');
  } finally {
    await server.stop();
    rmSync(damaged, { recursive: true });
  }
});

it('is refused with a shared queue, whose jobs come from elsewhere', async () => {
  const refused = new SidaProcess(['serve', folder, '--keep-alive', '1s', '--redis', 'redis://127.0.0.1:1']);
  expect(await refused.exit).toBe(2);
  expect(refused.output).toMatch(/"--keep-alive" option .* "--redis"/);
});
