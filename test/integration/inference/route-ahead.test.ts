// Routers of later layers in a real server: the same texts at every budget, with experts that they named ahead.
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { type Answer, metricsOf, REPO, ServerProcess } from '../../support/server-process.js';

const MODEL = join(REPO, 'models/olmoe-mini');
const PROMPTS = [
  'A violin is an instrument. A violin is an instrument. A violin is',
  'one two three four one two three four one two',
  'A river and a lake are',
];

let server: ServerProcess | undefined;
// A test that fails leaves no server behind.
afterEach(async () => {
  if (server?.alive) await server.stop();
});

const ok = ({ status, body }: Answer) => {
  expect(status, JSON.stringify(body)).toBe(200);
  return body;
};

async function start(...flags: string[]): Promise<ServerProcess> {
  server = await ServerProcess.start(['--model', MODEL, '--threads', '2', ...flags]);
  return server;
}

/** Greedy and sampled texts, one after the other and side by side. */
async function textsOf(subject: ServerProcess) {
  const ask = async (prompt: string, more: object) => {
    const body = { prompt, max_tokens: 40, logprobs: 2, return_token_ids: true, ...more };
    const [choice] = ok(await subject.post('/v1/completions', body)).choices;
    return { ids: choice.token_ids, logprobs: choice.logprobs };
  };
  const alone = [];
  for (const prompt of PROMPTS) alone.push(await ask(prompt, { temperature: 0 }));
  const sampled = PROMPTS.map((prompt, seed) => ask(prompt, { temperature: 0.7, seed }));
  return { alone, together: await Promise.all(sampled) };
}

it('changes no token and no log-probability, and routes nothing ahead where every expert has a slot', async () => {
  const plain = await start('--predictor', 'none', '--memory-budget', '100%');
  const expected = await textsOf(plain);
  expect(await plain.stop()).toBe(0);

  for (const [budget, predictor] of [
    ['20%', 'none'],
    ['60%', 'auto'],
  ] as const) {
    const ahead = ['--route-ahead', '2'];
    const subject = await start('--predictor', predictor, '--memory-budget', budget, ...ahead);
    expect(await textsOf(subject)).toEqual(expected);
    // Tables name most of it first, so that nothing may be left for the routers to name.
    await subject.until(async () => {
      const metric = await metricsOf(subject);
      return predictor === 'none'
        ? metric('sida_prefetches_foreseen_total') > 0
        : metric('sida_hash_tables_total{state="ready"}') > 0;
    });
    expect(ok(await subject.get('/admin/predictor')).route_ahead).toBe('active');
    if (predictor === 'auto') await routesNothingWhereAllFit(subject);
    expect(await subject.stop()).toBe(0);
  }
}, 240_000);

async function routesNothingWhereAllFit(subject: ServerProcess): Promise<void> {
  const states = async () => {
    const { state, route_ahead } = ok(await subject.get('/admin/predictor'));
    return [state, route_ahead];
  };
  expect(await states()).toEqual(['active', 'active']);
  ok(await subject.request('PUT', '/admin/budget', { device: '100%' }));
  expect(await states()).toEqual(['not_needed', 'not_needed']);
}
