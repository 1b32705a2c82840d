/** Counts the tokens of a classification. Its result has no count of label tokens, so their estimate is used. */
import { heldBytes, inputTokens, reservedTokens } from '../shared/token-estimates.js';
import type { TaskTokens } from '../task.js';
import type { ClassifyJob, ClassifyResult } from './job.js';

export const classifyTokens: TaskTokens<ClassifyJob, ClassifyResult> = {
  input: ({ inputs, labels }) => inputTokens(inputs) + inputs.length * inputTokens(labels),
  bytes: ({ inputs, labels }) => heldBytes(inputs) + heldBytes(labels),
  cost: (job) => ({ known: 0, estimated: reservedTokens(job.inputs) + labelTokens(job) }),
  texts: ({ inputs, labels }) => [...inputs, ...labels],
  used: (job, { promptTokens }) => promptTokens + labelTokens(job),
};

/** Every label is scored against every input. */
function labelTokens({ inputs, labels }: ClassifyJob): number {
  return inputs.length * reservedTokens(labels);
}
