// Several models in one server, an engine process each, within one budget.

import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MINI, metricsOf, REPO, ServerProcess } from '../../support/server-process.js';
import { ownPacks, SidaProcess } from '../../support/sida-process.js';

const SWITCH = join(REPO, 'test/fixtures/switch-tiny');
const OLMOE = join(REPO, 'test/fixtures/olmoe-tiny');
const MODELS = [MINI, SWITCH, OLMOE].flatMap((model) => ['--model', model]);
const NAMES = ['switch-mini', 'switch-tiny', 'olmoe-tiny'];
const TOTAL = 60 * 1024 ** 2;

const SENTENCE = { task: 'sst2', input: 'a fine film' };
const PROMPT = { prompt: [5, 9, 2, 7], max_tokens: 6, return_token_ids: true };

async function tokensOf(server: ServerProcess, model?: string): Promise<number[]> {
  const { status, body } = await server.post('/v1/completions', {
    ...PROMPT,
    ...(model !== undefined && { model }),
  });
  if (status !== 200) throw new Error(`${status} ${JSON.stringify(body)}`);
  return body.choices[0].token_ids;
}

describe('a server of three models', () => {
  let server: ServerProcess;
  let engines: number[];
  beforeAll(async () => {
    server = await ServerProcess.start([...MODELS, '--memory-budget', String(TOTAL)], 120_000);
    engines = server.enginePids();
  }, 150_000);
  afterAll(async () => {
    expect(await server.stop()).toBe(0);
  });

  it('has an engine process for each, and lists them', async () => {
    expect(engines).toHaveLength(3);
    const { data } = (await server.get('/v1/models')).body;
    expect(data.map(({ id, family, state }: Record<string, string>) => [id, family, state])).toEqual([
      ['switch-mini', 'switch_transformers', 'ready'],
      ['switch-tiny', 'switch_transformers', 'ready'],
      ['olmoe-tiny', 'olmoe', 'ready'],
    ]);
    expect(server.output).toContain('serves 3 models');
  });

  it('splits the budget, so that each has at least its smallest', async () => {
    let sum = 0;
    for (const name of NAMES) {
      const { device } = (await server.get(`/admin/budget?model=${name}`)).body;
      expect(device.budget_bytes).toBeGreaterThanOrEqual(device.smallest_bytes);
      expect(device.peak_bytes).toBeLessThanOrEqual(device.budget_bytes);
      sum += device.budget_bytes;
    }
    expect(sum).toBeGreaterThan(TOTAL - NAMES.length);
    expect(sum).toBeLessThanOrEqual(TOTAL);
  });

  it('gives the answers of a server of that model alone', async () => {
    const [both, alone] = await Promise.all([
      tokensOf(server, 'olmoe-tiny'),
      ServerProcess.start(['--model', OLMOE, '--memory-budget', '100%']).then(async (single) => {
        const tokens = await tokensOf(single);
        await single.stop();
        return tokens;
      }),
    ]);
    expect(both).toEqual(alone);
  }, 90_000);

  it('changes the budget of one model alone', async () => {
    const before = (await server.get('/admin/budget?model=olmoe-tiny')).body.device.budget_bytes;
    const own = (await server.get('/admin/budget?model=switch-mini')).body.device.budget_bytes;
    const changed = await server.request('PUT', '/admin/budget?model=switch-mini', { device: own - 2 ** 20 });
    expect(changed.status).toBe(200);
    expect((await server.get('/admin/budget?model=olmoe-tiny')).body.device.budget_bytes).toBe(before);
    const { budget_bytes: now } = changed.body.device;
    // Metrics are those of the engine's last sign of life.
    await server.until(
      async () => (await metricsOf(server))('sida_device_budget_bytes{model="switch-mini"}') === now,
    );
    expect((await metricsOf(server))('sida_device_budget_bytes{model="olmoe-tiny"}')).toBe(before);
  });

  it('keeps all budgets together within the one that they share', async () => {
    const budgetOf = async (name: string): Promise<number> =>
      (await server.get(`/admin/budget?model=${name}`)).body.device.budget_bytes;
    const put = (name: string, device: number) =>
      server.request('PUT', `/admin/budget?model=${name}`, { device });
    const [mini, , olmoe] = await Promise.all(NAMES.map(budgetOf));
    const others = TOTAL - (mini! + (await budgetOf('switch-tiny')) + olmoe!);
    const over = await put('olmoe-tiny', olmoe! + others + 1);
    expect([over.status, over.body.error.code, over.body.error.param]).toEqual([
      422,
      'budget_too_small',
      'device',
    ]);
    expect(over.body.error.details).toMatchObject({ shared_bytes: TOTAL, free_bytes: olmoe! + others });
    expect(await budgetOf('olmoe-tiny')).toBe(olmoe);
    // Each fits alone.
    const both = await Promise.all([put('olmoe-tiny', olmoe! + others), put('switch-mini', mini! + others)]);
    expect(both.map(({ status }) => status).toSorted()).toEqual([200, 422]);
  });

  it('answers without an error while the engine of another model is killed, and restarts that', async () => {
    const expected = await tokensOf(server, 'olmoe-tiny');
    const first = (await server.post('/v1/classify', SENTENCE)).body.data;
    const statuses: number[] = [];
    const phases = new Set<string>();
    let done = false;
    const follow = async () => {
      while (!done) {
        const { status, body } = await server.get('/health/ready');
        statuses.push(status);
        phases.add(body.status);
        await delay(5);
      }
    };
    const ask = async () => {
      for (let i = 0; i < 60; i++) {
        const { status, body } = await server.post('/v1/classify', { ...SENTENCE, model: 'switch-mini' });
        statuses.push(status);
        expect(body.data).toEqual(first);
      }
    };
    const following = follow();
    const asking = Promise.all([ask(), ask()]);
    await delay(100);
    process.kill(engines[2]!, 'SIGKILL');
    // A request to the killed engine waits for its replacement.
    await server.until(() => phases.has('degraded'));
    expect(await tokensOf(server, 'olmoe-tiny')).toEqual(expected);
    await asking;
    done = true;
    await following;
    expect(new Set(statuses)).toEqual(new Set([200]));
    expect((await server.get('/health/ready')).body.status).toBe('ready');
    const metric = await metricsOf(server);
    expect(NAMES.map((name) => metric(`sida_engine_restarts_total{model="${name}"}`))).toEqual([0, 0, 1]);
  }, 120_000);
});

it('refuses a budget that is too small for all, with the bytes of each, before it starts', async () => {
  const { flags, remove } = ownPacks();
  const args = ['serve', ...MODELS, '--port', '0', '--memory-budget', '1MiB', ...flags];
  const refused = new SidaProcess(args, remove);
  expect(await refused.exit).not.toBe(0);
  expect(refused.output).toMatch(
    /A budget of 1\.00 MiB is too small for 3 models, which need [\d.]+ MiB together: switch-mini [\d.]+ MiB, switch-tiny [\d.]+ MiB and olmoe-tiny [\d.]+ MiB/,
  );
}, 30_000);

it('ends when a model cannot be opened', async () => {
  const { flags, remove } = ownPacks();
  const args = ['serve', OLMOE, join(REPO, 'test/fixtures/absent'), '--port', '0', ...flags];
  const refused = new SidaProcess(args, remove);
  expect(await refused.exit).not.toBe(0);
  expect(refused.output).toContain('absent');
}, 30_000);
