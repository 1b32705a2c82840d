/** Converts a classification into the model's inputs: each text, with the labels to score after it. */
import { planScoring } from '../../batching/scoring-plan.js';
import {
  checkedInput,
  checkLength,
  type ModelLimits,
  type PreparedInput,
  tokenizerOf,
} from '../shared/prepared-input.js';
import type { ClassifyJob } from './job.js';

export function classifyInputs({ inputs, labels }: ClassifyJob, limits: ModelLimits): PreparedInput[] {
  const tokenizer = tokenizerOf(limits, 'input');
  const { start, end } = limits.shape.tokens;
  const labelIds = labels.map((label) => tokenizer.encodePlain(label));
  const plan = planScoring(labelIds, start, end[0]);
  for (const { tokens } of plan.inputs)
    checkLength(tokens.length, 'labels', 'A label', limits.maxBatchTokens);
  return inputs.map((text, index) => {
    const input: PreparedInput = { tokens: tokenizer.encode(text), work: { kind: 'score', plan } };
    return checkedInput(input, 'input', `Input ${index}`, limits);
  });
}
