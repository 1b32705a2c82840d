/** Builds the answer of a translation. */
import { expertsAnswer, usageAnswer } from '../shared/schema.js';
import type { AnswerAbout } from '../task.js';
import type { TranslateForm, TranslateResult } from './job.js';
import type { TranslateAnswer } from './schema.js';

export function translateAnswer(
  { model, form }: AnswerAbout<TranslateForm>,
  result: TranslateResult,
): typeof TranslateAnswer._output {
  const { data, experts } = result;
  return {
    object: 'translation',
    model,
    data: data.map(({ text, tokenIds, finishReason }, index) => ({
      index,
      text,
      finish_reason: finishReason,
      ...(form.tokenIds && { token_ids: tokenIds }),
    })),
    usage: usageAnswer(result),
    ...(form.experts && { experts: expertsAnswer(experts) }),
  };
}
