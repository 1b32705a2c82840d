/** Builds the answer of a translation. */
import { expertsAnswer } from '../shared/schema.js';
import type { AnswerAbout } from '../task.js';
import type { TranslateForm, TranslateResult } from './job.js';
import type { TranslateAnswer } from './schema.js';

export function translateAnswer(
  { model, form }: AnswerAbout<TranslateForm>,
  { data, promptTokens, completionTokens, experts }: TranslateResult,
): typeof TranslateAnswer._output {
  return {
    object: 'translation',
    model,
    data: data.map(({ text, tokenIds, finishReason }, index) => ({
      index,
      text,
      finish_reason: finishReason,
      ...(form.tokenIds && { token_ids: tokenIds }),
    })),
    usage: {
      prompt_tokens: promptTokens,
      completion_tokens: completionTokens,
      total_tokens: promptTokens + completionTokens,
    },
    ...(form.experts && { experts: expertsAnswer(experts) }),
  };
}
