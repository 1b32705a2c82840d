/** The oracle of the fault suite: what the fully resident engine answers. */
import { MINI, ServerProcess, sst2 } from '../support/server-process.js';

export interface Question {
  type: 'classify' | 'completion';
  path: string;
  body: object;
  /** See essence(). */
  right: string;
}

/** What of an answer is the model's; ids and times are not. */
export function essence(answer: { data?: unknown; choices?: unknown } | null | undefined): string {
  return JSON.stringify(answer?.data ?? answer?.choices);
}

const SENTENCES = sst2().map(({ text }) => text);
const classify = (input: string | string[]) =>
  ({ type: 'classify', path: '/v1/classify', body: { task: 'sst2', input } }) as const;
const complete = (prompt: string, more: object) =>
  ({ type: 'completion', path: '/v1/completions', body: { prompt, ...more } }) as const;

/** The questions with the answers of a server without faults, whose experts are all resident. */
async function answered(questions: Omit<Question, 'right'>[]): Promise<Question[]> {
  const server = await ServerProcess.start([
    '--model',
    MINI,
    '--memory-budget',
    '100%',
    '--log-level',
    'warn',
  ]);
  try {
    const all: Question[] = [];
    for (const question of questions) {
      const { status, body } = await server.post(question.path, question.body);
      if (status !== 200) throw new Error(`the oracle answered ${status}: ${JSON.stringify(body)}`);
      all.push({ ...question, right: essence(body) });
    }
    return all;
  } finally {
    await server.stop();
  }
}

/** Single sentences, lists of them, and short completions. */
export function goldenQuestions(): Promise<Question[]> {
  const more = { max_tokens: 24, logprobs: 1, return_token_ids: true };
  return answered([
    ...SENTENCES.slice(0, 40).map(classify),
    ...Array.from({ length: 8 }, (_, i) => classify(SENTENCES.slice(100 + 8 * i, 108 + 8 * i))),
    ...SENTENCES.slice(200, 208).map((text) => complete(`The film was <extra_id_0>. ${text}`, more)),
  ]);
}

/** Completions that take long. */
export function longQuestions(count: number, max_tokens = 300): Promise<Question[]> {
  return answered(
    Array.from({ length: count }, (_, i) => complete(`${i} The film was <extra_id_0>.`, { max_tokens })),
  );
}
