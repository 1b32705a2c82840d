// Exact mode with hash tables: answers keep their bits for every predictor, right or wrong.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makePredictor, type PredictorFiles, withTables } from '../../support/predictor-files.js';
import { type Answer, MINI, metricsOf, ServerProcess, sst2 } from '../../support/server-process.js';

const sentences = sst2().slice(0, 60);
const prompts = sentences.slice(0, 6).map(({ text }) => `sst2 sentence: ${text}`);
/** Small batches, so that several wait while one runs. */
const SERVER = ['--model', MINI, '--max-batch-tokens', '256', '--kv-tokens', '1536', '--log-level', 'warn'];

let files: PredictorFiles;
let reference: Answers;

interface Answers {
  labels: unknown[];
  tokens: number[][];
}

/** Sends every sentence and every prompt as a separate request, all at once. */
async function answersOf(server: ServerProcess): Promise<Answers> {
  const ok = (answer: Answer) => {
    if (answer.status !== 200) throw new Error(`${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body;
  };
  const labels = sentences.map(async ({ text }) => {
    const { label, scores } = ok(await server.post('/v1/classify', { task: 'sst2', input: text })).data[0];
    return { label, scores };
  });
  const tokens = prompts.map(async (prompt) => {
    const body = { prompt, max_tokens: 12, return_token_ids: true };
    return ok(await server.post('/v1/completions', body)).choices[0].token_ids as number[];
  });
  return { labels: await Promise.all(labels), tokens: await Promise.all(tokens) };
}

beforeAll(async () => {
  files = makePredictor(sentences);
  const server = await ServerProcess.start([...SERVER, '--memory-budget', '100%', '--predictor', 'none']);
  reference = await answersOf(server);
  expect(await server.stop()).toBe(0);
  expect(new Set(reference.tokens.map(String)).size).toBeGreaterThan(1);
});
afterAll(() => files.remove());

const rows = [
  ['token', 'lru', '1'],
  ['lstm', 'farthest-next-use', '4'],
  ['replay', 'farthest-next-use', '4'],
  ['shuffled', 'lru', '1'],
] as const;

describe.each(rows)('predictor %s, policy %s, queued batches %s', (kind, policy, queued) => {
  let server: ServerProcess;
  beforeAll(async () => {
    const directory = kind === 'replay' ? files.trace : files.predictor;
    const options = ['--predictor', directory, '--policy', policy, '--queued-batches', queued];
    const flags = [...SERVER, '--memory-budget', '25%', ...options];
    server =
      kind === 'replay' || kind === 'shuffled'
        ? await withTables(kind, () => ServerProcess.start(flags))
        : await ServerProcess.start([...flags, '--hash-function', kind]);
  });
  afterAll(async () => {
    expect(await server.stop()).toBe(0);
  });

  it('gives the same bits as the fully resident server at 25 % and the smallest budget', async () => {
    for (const budget of ['25%', 'smallest']) {
      await server.setBudget(budget);
      expect(await answersOf(server), budget).toEqual(reference);
      const { device } = (await server.get('/admin/budget')).body;
      expect(device.used_bytes).toBeLessThanOrEqual(device.budget_bytes);
    }
    const metric = await metricsOf(server);
    const routings = metric('sida_predictor_routings_total');
    const tables = metric('sida_hash_tables_total{state="ready"}');
    expect([routings > 0, tables > 0]).toEqual([true, true]);
    const hits = metric('sida_predictor_hits_total{top="1"}');
    if (kind === 'replay') expect(hits).toBe(routings);
    else if (kind === 'shuffled') expect(hits).toBeLessThan(routings / 2);
  });
});
