/** Builds the answer of a classification. */
import { SidaError } from '../../errors.js';
import { expertsAnswer } from '../shared/schema.js';
import type { AnswerAbout } from '../task.js';
import type { ClassifyForm, ClassifyResult } from './job.js';
import type { ClassifyAnswer } from './schema.js';

export function classifyAnswer(
  { model, form }: AnswerAbout<ClassifyForm>,
  { data, promptTokens, experts }: ClassifyResult,
): typeof ClassifyAnswer._output {
  checkScores(data.flatMap(({ scores }) => Object.values(scores)));
  return {
    object: 'classification',
    model,
    data: data.map(({ label, scores }, index) => ({ index, label, scores })),
    usage: { prompt_tokens: promptTokens },
    ...(form.experts && { experts: expertsAnswer(experts) }),
  };
}

/** JSON turns non-finite numbers into null, which a client cannot distinguish from an answer. */
function checkScores(scores: number[]): void {
  if (scores.every(Number.isFinite)) return;
  throw new SidaError({
    code: 'nonfinite_output',
    message: 'The model gave a score that is not a finite number',
  });
}
