// The governor of a real server: it reports itself, builds nothing where nothing is loaded, and changes no answer.
import { afterEach, expect, it } from 'vitest';
import { type Answer, MINI, metricsOf, ServerProcess, sst2 } from '../../support/server-process.js';

const SERVER = ['--model', MINI, '--max-batch-tokens', '256', '--threads', '1'];
const sentences = sst2().slice(0, 64);
const prompts = sentences.slice(0, 4).map(({ text }) => `sst2 sentence: ${text}`);

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
  server = await ServerProcess.start([...SERVER, ...flags]);
  return server;
}

/** Every sentence and every prompt as a separate request, eight at a time. */
async function answersOf(subject: ServerProcess) {
  const requests = [
    ...sentences.map(({ text }) => async () => {
      const { label, scores } = ok(await subject.post('/v1/classify', { task: 'sst2', input: text })).data[0];
      return { label, scores };
    }),
    ...prompts.map((prompt) => async () => {
      const body = { prompt, max_tokens: 8, return_token_ids: true };
      return ok(await subject.post('/v1/completions', body)).choices[0].token_ids;
    }),
  ];
  const answers: unknown[] = [];
  let next = 0;
  const client = async () => {
    for (let at = next++; at < requests.length; at = next++) answers[at] = await requests[at]!();
  };
  await Promise.all(Array.from({ length: 8 }, client));
  return answers;
}

const reported = async (subject: ServerProcess) => ok(await subject.get('/admin/predictor'));

it('measures both arms where experts are loaded, says so, and answers as without a predictor', async () => {
  const without = await start('--memory-budget', '20%', '--predictor', 'none');
  const expected = await answersOf(without);
  expect(await reported(without)).toMatchObject({
    function: null,
    governor: 'off',
    state: 'off',
    gain: null,
  });
  expect(await without.stop()).toBe(0);

  const governed = await start('--memory-budget', '20%');
  expect(await reported(governed)).toMatchObject({ governor: 'on', state: 'probing', gain: null });
  let state = 'probing';
  // A probe rests between its pairs until what it has lost is little.
  const end = performance.now() + 180_000;
  while (state === 'probing' && performance.now() < end) {
    expect(await answersOf(governed)).toEqual(expected);
    state = (await reported(governed)).state;
  }
  const { function: name, gain, measured, pause_seconds: pause } = await reported(governed);
  expect(name).not.toBeNull();
  expect(['active', 'resting']).toContain(state);
  expect(gain.low).toBeLessThanOrEqual(gain.mean);
  expect(gain.mean).toBeLessThanOrEqual(gain.high);
  expect(gain.low > 0).toBe(state === 'active');
  expect(gain.pairs).toBeGreaterThanOrEqual(4);
  expect(pause).toBeGreaterThan(0);
  // The counters come with the last report of the engine.
  const shown = `sida_governor_state{source="tables",state="${state}"}`;
  await governed.until(async () => (await metricsOf(governed))(shown) === 1);
  const metric = await metricsOf(governed);
  for (const arm of ['predict', 'rest']) {
    expect(measured[arm].windows).toBeGreaterThanOrEqual(4);
    expect(metric(`sida_governor_windows_total{source="tables",arm="${arm}"}`)).toBe(measured[arm].windows);
    expect(metric(`sida_governor_tokens_total{source="tables",arm="${arm}"}`)).toBe(measured[arm].tokens);
    expect(metric(`sida_governor_seconds_total{source="tables",arm="${arm}"}`)).toBeCloseTo(
      measured[arm].seconds,
      6,
    );
  }
  expect(governed.output).toMatch(
    /"source":"tables","state":"(active|resting)".*"pairs":\d+.*prediction (saves|rests)/,
  );
  // Answers stay the same after the decision.
  expect(await answersOf(governed)).toEqual(expected);
  expect(await governed.stop()).toBe(0);
}, 240_000);

it('builds no table where every expert has a slot, and begins when the budget shrinks', async () => {
  const subject = await start('--memory-budget', '100%');
  const expected = await answersOf(subject);
  expect(await reported(subject)).toMatchObject({ governor: 'on', state: 'not_needed', gain: null });
  const tables = async () => {
    const metric = await metricsOf(subject);
    return ['ready', 'failed', 'abandoned', 'skipped'].map((each) =>
      metric(`sida_hash_tables_total{state="${each}"}`),
    );
  };
  expect(await tables()).toEqual([0, 0, 0, 0]);
  // Batches without tables go past the hash-building thread; their inputs are counted as those of others are.
  const inputs = async () => (await metricsOf(subject))('sida_batch_inputs_total');
  const each = sentences.length + prompts.length;
  await subject.until(async () => (await inputs()) === each);
  ok(await subject.request('PUT', '/admin/budget', { device: '20%' }));
  expect((await reported(subject)).state).toBe('probing');
  expect(await answersOf(subject)).toEqual(expected);
  await subject.until(async () => (await tables())[0]! > 0);
  await subject.until(async () => (await inputs()) === 2 * each);
  ok(await subject.request('PUT', '/admin/budget', { device: '100%' }));
  expect((await reported(subject)).state).toBe('not_needed');
  expect(await subject.stop()).toBe(0);
}, 240_000);

it.each([
  [['--governor', 'off'], 'active'],
  [['--routing', 'predicted'], 'active'],
])(
  'never rests with %j',
  async (flags, state) => {
    const subject = await start('--memory-budget', '20%', ...flags);
    for (let round = 0; round < 2; round++) await answersOf(subject);
    expect(await reported(subject)).toMatchObject({ governor: 'off', state, gain: null, pause_seconds: 0 });
    expect(await subject.stop()).toBe(0);
  },
  240_000,
);
