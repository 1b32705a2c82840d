// Trained chat models over HTTP: greedy answers are those of transformers at every budget, sampled ones depend on their
// seed alone.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { REPO, ServerProcess } from '../../support/server-process.js';

const MODEL = 'models/olmoe-mini';
/** Trained on other texts. */
const SHARED = '../shared/models/olmoe-mini';
const hasShared = existsSync(join(REPO, SHARED));
if (!hasShared) console.warn(`SKIPPED: answers of another trained OLMoE, ${SHARED} does not exist`);

/** Of make_answers.py beside them. */
const answersIn = (file: string): { content: string; ids: number[] }[] =>
  JSON.parse(readFileSync(join(REPO, 'test/fixtures/olmoe-mini', file), 'utf8'));
const ANSWERS = answersIn('answers.json');
const MOST = 40;
const AT_ONCE = 16;

let server: ServerProcess | undefined;
afterAll(() => server?.stop());

async function start(budget: string, model = MODEL): Promise<void> {
  server = await ServerProcess.start([
    ...['--model', join(REPO, model)],
    ...['--memory-budget', budget === 'smallest' ? '1%' : budget],
  ]);
  if (budget === 'smallest') await server.setBudget(budget);
}

async function stop(): Promise<void> {
  expect(server!.output).not.toMatch(/ failed/);
  expect(await server!.stop()).toBe(0);
}

async function chat(content: string, sampling: object = { temperature: 0 }): Promise<number[]> {
  const messages = [{ role: 'user', content }];
  const asked = { messages, max_tokens: MOST, return_token_ids: true, ...sampling };
  const { status, body } = await server!.post('/v1/chat/completions', asked);
  expect(status, JSON.stringify(body)).toBe(200);
  return body.choices[0].token_ids;
}

async function allOf<T>(count: number, atOnce: number, run: (at: number) => Promise<T>): Promise<T[]> {
  const results: T[] = [];
  let next = 0;
  const client = async () => {
    while (next < count) {
      const own = next++;
      results[own] = await run(own);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, client));
  return results;
}

describe.each([
  { model: MODEL, answers: ANSWERS, budgets: ['25%', '100%', 'smallest'] },
  ...(hasShared ? [{ model: SHARED, answers: answersIn('answers-shared.json'), budgets: ['smallest'] }] : []),
])('$model', ({ model, answers, budgets }) => {
  it(`answers 100 questions with the tokens of transformers, budgets: ${budgets}`, async () => {
    expect(answers).toHaveLength(100);
    await start(budgets[0]!, model);
    for (const budget of budgets) {
      await server!.setBudget(budget);
      const said = await allOf(answers.length, AT_ONCE, (i) => chat(answers[i]!.content));
      expect(said, budget).toEqual(answers.map(({ ids }) => ids));
    }
    await stop();
  }, 180_000);
});

it('gives a sampled text by its seed, at another budget, alone and among others, and after a restart', async () => {
  const sampled = (atOnce: number) =>
    allOf(AT_ONCE, atOnce, (i) => chat(ANSWERS[5 * i]!.content, { temperature: 1.2, top_p: 0.9, seed: i }));
  await start('100%');
  const alone = await sampled(1);
  await stop();
  await start('smallest');
  expect(await sampled(AT_ONCE)).toEqual(alone);
  await stop();
  expect(new Set(alone.map(String)).size).toBe(AT_ONCE);
}, 120_000);
