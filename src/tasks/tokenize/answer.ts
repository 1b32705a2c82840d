/** Builds the answer of a tokenization. */
import type { AnswerAbout } from '../task.js';
import type { TokenizeForm, TokenizeResult } from './job.js';
import type { TokenizeAnswer } from './schema.js';

export function tokenizeAnswer(
  { model }: AnswerAbout<TokenizeForm>,
  { data, promptTokens }: TokenizeResult,
): typeof TokenizeAnswer._output {
  return {
    object: 'tokenization',
    model,
    data: data.map(({ ids, tokens }, index) => ({ index, ids, tokens })),
    usage: { prompt_tokens: promptTokens },
  };
}
