// A real server builds no table where every expert has a slot or prediction is switched off.
import { afterEach, expect, it } from 'vitest';
import { type Answer, MINI, metricsOf, ServerProcess, sst2 } from '../../support/server-process.js';

let server: ServerProcess | undefined;
// A test that fails leaves no server behind.
afterEach(async () => {
  if (server?.alive) await server.stop();
});

const ok = ({ status, body }: Answer) => {
  expect(status, JSON.stringify(body)).toBe(200);
  return body;
};

it('builds no table where every expert has a slot or prediction is switched off', async () => {
  const flags = ['--model', MINI, '--max-batch-tokens', '256', '--threads', '1', '--memory-budget', '100%'];
  const subject = await ServerProcess.start(flags);
  server = subject;
  const texts = sst2().slice(0, 32);
  let asked = 0;
  const answers = () => {
    asked += texts.length;
    return Promise.all(
      texts.map(
        async ({ text }) =>
          ok(await subject.post('/v1/classify', { task: 'sst2', input: text })).data[0].scores,
      ),
    );
  };
  const state = async () => ok(await subject.get('/admin/predictor')).state;
  const tables = async () => {
    const metric = await metricsOf(subject);
    return ['ready', 'failed', 'abandoned', 'skipped'].map((each) =>
      metric(`sida_hash_tables_total{state="${each}"}`),
    );
  };
  const inputs = async () => (await metricsOf(subject))('sida_batch_inputs_total');
  // On a busy machine tables may come too late for many batches.
  const buildsMoreThan = (ready: number) =>
    subject.until(async () => {
      expect(await answers()).toEqual(expected);
      return (await tables())[0]! > ready;
    });

  const expected = await answers();
  expect(await state()).toBe('not_needed');
  expect(await tables()).toEqual([0, 0, 0, 0]);
  // Batches without tables go past the hash-building thread; their inputs are counted as those of others are.
  await subject.until(async () => (await inputs()) === asked);
  ok(await subject.request('PUT', '/admin/budget', { device: '20%' }));
  expect(await state()).toBe('active');
  await buildsMoreThan(0);
  await subject.until(async () => (await inputs()) === asked);
  const switched = async (body: object) => ok(await subject.request('PUT', '/admin/predictor', body)).state;
  expect(await switched({ enabled: false })).toBe('off');
  const before = await tables();
  expect(await answers()).toEqual(expected);
  await subject.until(async () => (await inputs()) === asked);
  expect(await tables()).toEqual(before);
  expect(await switched({ enabled: false, seconds: 0.2 })).toBe('off');
  await subject.until(async () => (await state()) === 'active');
  await buildsMoreThan(before[0]!);
  ok(await subject.request('PUT', '/admin/budget', { device: '100%' }));
  expect(await state()).toBe('not_needed');
  expect(await subject.stop()).toBe(0);
}, 240_000);
