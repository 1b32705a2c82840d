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

/** Single sentences, lists of them, and short completions. */
function unanswered(): Omit<Question, 'right'>[] {
  const classify = (input: string | string[]) =>
    ({ type: 'classify', path: '/v1/classify', body: { task: 'sst2', input } }) as const;
  const complete = (sentence: string) =>
    ({
      type: 'completion',
      path: '/v1/completions',
      body: {
        prompt: `The film was <extra_id_0>. ${sentence}`,
        max_tokens: 24,
        logprobs: 1,
        return_token_ids: true,
      },
    }) as const;
  return [
    ...SENTENCES.slice(0, 40).map(classify),
    ...Array.from({ length: 8 }, (_, i) => classify(SENTENCES.slice(100 + 8 * i, 108 + 8 * i))),
    ...SENTENCES.slice(200, 208).map(complete),
  ];
}

/** Adds the answer of a server without faults, whose experts are all resident. */
export async function answered<T extends Omit<Question, 'right'>>(
  questions: T[],
): Promise<(T & { right: string })[]> {
  const server = await ServerProcess.start([
    '--model',
    MINI,
    '--memory-budget',
    '100%',
    '--log-level',
    'warn',
  ]);
  try {
    const all: (T & { right: string })[] = [];
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

export function goldenQuestions(): Promise<Question[]> {
  return answered(unanswered());
}
