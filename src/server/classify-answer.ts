/** The answer of a classification. */
import { SidaError } from '../errors.js';
import type { AnswerForm } from '../queue/job-queue.js';
import type { ResultOf } from './jobs.js';
import type { ClassifyAnswer } from './schemas/classify.js';
import { expertsAnswer } from './schemas/common.js';

export function classifyAnswer(
  model: string,
  result: ResultOf<'classify'>,
  form: AnswerForm,
): typeof ClassifyAnswer._output {
  checkScores(result.data.flatMap(({ scores }) => Object.values(scores)));
  return {
    object: 'classification',
    model,
    data: result.data.map(({ label, scores }, index) => ({ index, label, scores })),
    usage: { prompt_tokens: result.promptTokens },
    ...(form.experts && { experts: expertsAnswer(result.experts) }),
  };
}

/** JSON would turn these into null, which a client cannot tell from an answer. */
function checkScores(scores: number[]): void {
  if (scores.every(Number.isFinite)) return;
  throw new SidaError({
    code: 'nonfinite_output',
    message: 'The model gave a score that is not a finite number',
  });
}
