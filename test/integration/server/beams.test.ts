// Beam search over HTTP against transformers: with every expert resident, with half of them, and with the smallest
// budget; alone and beside other requests.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { metricsOf, REPO, ServerProcess } from '../../support/server-process.js';

const FIXTURES = join(REPO, 'test/fixtures');
const work = mkdtempSync(join(tmpdir(), 'sida-beams-'));
afterAll(() => rmSync(work, { recursive: true, force: true }));

interface Search {
  prompt: number;
  forced_bos_token_id: number | null;
  num_beams: number;
  length_penalty: number;
  early_stopping: boolean | 'never';
  best: number[][];
}
const { prompts, models } = JSON.parse(readFileSync(join(FIXTURES, 'beams/beams.json'), 'utf8')) as {
  prompts: number[][];
  models: { ends: number[]; searches: Search[] }[];
};

/** A copy of switch-tiny with other end tokens, and with a tokenizer that has language codes. */
function modelWith(name: string, ends: number[] | number, languages = false): string {
  const directory = join(work, name);
  cpSync(join(FIXTURES, 'switch-tiny'), directory, { recursive: true });
  const file = join(directory, 'generation_config.json');
  const generation = JSON.parse(readFileSync(file, 'utf8'));
  writeFileSync(file, JSON.stringify({ ...generation, eos_token_id: ends }));
  if (languages)
    cpSync(join(FIXTURES, 'tokenizers/languages/tokenizer.json'), join(directory, 'tokenizer.json'));
  return directory;
}

/** The texts of a search, best first. */
async function textsOf(server: ServerProcess, body: object): Promise<number[][]> {
  const answer = await server.post('/v1/completions', { return_token_ids: true, ...body });
  expect(answer.status, JSON.stringify(answer.body)).toBe(200);
  return (answer.body.choices as { token_ids: number[] }[]).map(({ token_ids }) => token_ids);
}

async function pagesFree(server: ServerProcess): Promise<boolean> {
  const metric = await metricsOf(server);
  return metric('sida_kv_pages_free') === metric('sida_kv_pages');
}

describe.each(models.map((model, index) => ({ ...model, index })))(
  'end tokens $ends',
  ({ ends, searches, index }) => {
    let server: ServerProcess;
    beforeAll(async () => {
      server = await ServerProcess.start([
        '--model',
        modelWith(`ends-${index}`, ends),
        '--memory-budget',
        '100%',
      ]);
    });
    afterAll(() => server.stop());

    it.each(['100%', '50%', 'smallest'])(
      'gives the texts of transformers with a budget of %s, beside other requests',
      async (budget) => {
        await server.setBudget(budget);
        const greedy = { prompt: prompts[1], max_tokens: 20 };
        const expected = await textsOf(server, greedy);
        const waiting = [...searches];
        const client = async () => {
          for (let search = waiting.pop(); search !== undefined; search = waiting.pop()) {
            const { prompt, best, ...settings } = search;
            const body = { prompt: prompts[prompt], max_tokens: 12, n: settings.num_beams, ...settings };
            expect(await textsOf(server, body), JSON.stringify(search)).toEqual(best);
          }
        };
        const other = async () => {
          for (let i = 0; i < 6; i++) expect(await textsOf(server, greedy)).toEqual(expected);
        };
        await Promise.all([client(), client(), client(), other()]);
        await server.until(() => pagesFree(server));
      },
      120_000,
    );
  },
);

describe('a model that hardly ends', () => {
  let server: ServerProcess;
  beforeAll(async () => {
    server = await ServerProcess.start([
      '--model',
      modelWith('languages', 2, true),
      '--memory-budget',
      '50%',
    ]);
  });
  afterAll(() => server.stop());

  it('frees the pages of a search that is cancelled while it runs', async () => {
    const body = { type: 'completion', prompt: prompts[2], max_tokens: 600, num_beams: 4, length_penalty: 5 };
    const { id } = (await server.post('/v1/jobs', body)).body;
    await server.until(async () => !(await pagesFree(server)));
    const cancelled = await server.request('DELETE', `/v1/jobs/${id}`);
    expect(cancelled.body).toMatchObject({ status: 'cancelled' });
    await server.until(() => pagesFree(server));
    expect(await textsOf(server, { prompt: prompts[0], num_beams: 4, max_tokens: 3 })).toHaveLength(1);
  });

  it('answers a search as a job as it answers it at once', async () => {
    const body = { prompt: prompts[1], num_beams: 3, n: 2, max_tokens: 8, return_token_ids: true };
    const { id } = (await server.post('/v1/jobs', { type: 'completion', ...body })).body;
    let job = await server.get(`/v1/jobs/${id}`);
    while (job.body.status !== 'completed') {
      await delay(20);
      job = await server.get(`/v1/jobs/${id}`);
    }
    const { choices } = job.body.answer as { choices: { token_ids: number[] }[] };
    expect(choices.map(({ token_ids }) => token_ids)).toEqual(await textsOf(server, body));
  });

  it('translates what it completes with the same ids', async () => {
    const input = ['the film was', 'a film'];
    const settings = { max_tokens: 9, num_beams: 3, return_token_ids: true };
    const answer = await server.post('/v1/translate', {
      input,
      source: 'eng_Latn',
      target: 'fra_Latn',
      ...settings,
    });
    expect(answer.status, JSON.stringify(answer.body)).toBe(200);
    const tokens = await server.post('/v1/tokenize', { input, add_special_tokens: false });
    for (const [i, { ids }] of (tokens.body.data as { ids: number[] }[]).entries()) {
      const completed = await server.post('/v1/completions', {
        prompt: [300, ...ids, 2],
        forced_bos_token_id: 302,
        ...settings,
      });
      const { text, token_ids, finish_reason } = completed.body.choices[0];
      expect(answer.body.data[i]).toEqual({ index: i, text, token_ids, finish_reason });
      expect(token_ids[0]).toBe(302);
    }
    const refused = await server.post('/v1/translate', { input, source: 'eng_Latn', target: 'deu_Latin' });
    expect([refused.status, refused.body.error]).toMatchObject([
      400,
      { param: 'target', message: expect.stringContaining('deu_Latn') },
    ]);
  });

  it('refuses to stream a search', async () => {
    const refused = await server.post('/v1/completions', { prompt: [5, 6], num_beams: 2, stream: true });
    expect([refused.status, refused.body.error]).toMatchObject([400, { param: 'stream' }]);
  });
});
