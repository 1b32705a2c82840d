/** Converts a classification into the model's inputs: each text, with the labels to score after it. */
import { planScoring } from '../../batching/scoring-plan.js';
import { SidaError } from '../../errors.js';
import type { TextToEncode } from '../../protocol/tokenizer-messages.js';
import {
  checkedInput,
  checkPass,
  type ModelLimits,
  type PreparedInput,
  requireTexts,
} from '../shared/prepared-input.js';
import type { ClassifyJob } from './job.js';

/** Most tokens of labels that a request may have scored: each label is scored after each input. */
const MOST_SCORED_TOKENS = 65_536;

export function classifyTexts({ inputs, labels }: ClassifyJob, limits: ModelLimits): TextToEncode[] {
  requireTexts(limits, 'input');
  return [
    ...labels.map((text) => ({ text, special: false })),
    ...inputs.map((text) => ({ text, special: true })),
  ];
}

export function classifyInputs(
  { inputs, labels }: ClassifyJob,
  limits: ModelLimits,
  ids: readonly number[][],
): PreparedInput[] {
  const labelIds = ids.slice(0, labels.length);
  checkScored(inputs.length, labelIds);
  const { start, end } = limits.shape.tokens;
  const tokens = (index: number) => ids[labels.length + index]!;
  const plan = planScoring(labelIds, start, end[0], (fed) => {
    for (const label of fed) checkPass(label.tokens.length, 'labels', 'A label', limits);
    const work = { kind: 'score' as const, plan: { labels: labels.length, first: [], inputs: fed } };
    for (const index of inputs.keys())
      checkedInput({ tokens: tokens(index), work }, 'input', `Input ${index}`, limits);
  });
  return inputs.map((_, index) => ({ tokens: tokens(index), work: { kind: 'score', plan } }));
}

function checkScored(inputs: number, labels: readonly number[][]): void {
  const tokens = labels.reduce((sum, ids) => sum + ids.length, 0);
  const scored = inputs * tokens;
  if (scored <= MOST_SCORED_TOKENS) return;
  throw new SidaError({
    code: 'cannot_run',
    message: `${inputs} inputs with ${labels.length} labels of ${tokens} tokens together make ${scored} tokens to score; the limit is ${MOST_SCORED_TOKENS}`,
    param: 'labels',
    details: { inputs, label_tokens: tokens, tokens: scored, limit: MOST_SCORED_TOKENS },
  });
}
