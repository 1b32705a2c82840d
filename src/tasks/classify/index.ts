/** Scores labels as continuations of texts. */

import { SidaError } from '../../errors.js';
import type { TextToEncode } from '../../protocol/tokenizer-messages.js';
import { planScoring } from '../../scheduler/scoring.js';
import {
  checkedInput,
  checkPass,
  type ModelLimits,
  type PreparedInput,
  requireTexts,
} from '../shared/prepared-input.js';
import { costParts } from '../shared/schema.js';
import { heldBytes, inputTokens, reservedTokens } from '../shared/token-estimates.js';
import type { AnswerAbout, JobResults, OwnResult, Task } from '../task.js';
import {
  type Classification,
  type ClassifyForm,
  type ClassifyJob,
  type ClassifyResult,
  storedForm,
  storedJob,
  storedResult,
} from './job.js';
import { type ClassifyBody, prepareClassify } from './request.js';
import { ClassifyAnswer, ClassifyRequest } from './schema.js';

export const classify: Task<ClassifyBody, ClassifyJob, ClassifyResult, ClassifyForm> = {
  kind: 'classify',
  route: {
    path: '/v1/classify',
    summary: 'Scores labels as continuations of each input',
    answer: 'One entry for each input',
  },
  jobType: 'classify',
  schemas: { request: ClassifyRequest, answer: ClassifyAnswer },
  stored: { job: storedJob, result: storedResult, form: storedForm },
  prepare: prepareClassify,
  form: ({ explain = false }) => ({ experts: explain }),
  answers: (about) => ({ whole: (result) => classifyAnswer(about, result) }),
  tokens: {
    input: ({ inputs, labels }) => inputTokens(inputs) + inputs.length * inputTokens(labels),
    bytes: ({ inputs, labels }) => heldBytes(inputs) + heldBytes(labels),
    cost: (job) => ({ known: 0, estimated: reservedTokens(job.inputs) + labelTokens(job) }),
    texts: ({ inputs, labels }) => [...inputs, ...labels],
    used: (job, { promptTokens }) => promptTokens + labelTokens(job),
  },
  engine: {
    runs: 'model',
    texts: classifyTexts,
    inputs: classifyInputs,
    results: (job) => new ClassifyResults(job),
  },
};

/** Every label is scored against every input. */
function labelTokens({ inputs, labels }: ClassifyJob): number {
  return inputs.length * reservedTokens(labels);
}

/** Most tokens of labels that a request may have scored: each label is scored after each input. */
const MOST_SCORED_TOKENS = 65_536;

function classifyTexts({ inputs, labels }: ClassifyJob, limits: ModelLimits): TextToEncode[] {
  requireTexts(limits, 'input');
  return [
    ...labels.map((text) => ({ text, special: false })),
    ...inputs.map((text) => ({ text, special: true })),
  ];
}

function classifyInputs(
  { inputs, labels }: ClassifyJob,
  limits: ModelLimits,
  ids: readonly Int32Array[],
): PreparedInput[] {
  const labelIds = ids.slice(0, labels.length).map((each) => [...each]);
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

class ClassifyResults implements JobResults<ClassifyResult> {
  readonly #labels: readonly string[];
  readonly #data: Classification[] = [];

  constructor({ labels }: ClassifyJob) {
    this.#labels = labels;
  }

  scores(input: number, logprobs: readonly number[]): void {
    this.#data[input] = classification(this.#labels, logprobs);
  }

  finish(): OwnResult<ClassifyResult> {
    return { data: this.#data, completionTokens: 0 };
  }
}

function classification(labels: readonly string[], logprobs: readonly number[]): Classification {
  const scores = softmax(logprobs);
  const best = logprobs.reduce((top, logprob, label) => (logprob > logprobs[top]! ? label : top), 0);
  // fromEntries also handles a label named __proto__.
  return { label: labels[best]!, scores: Object.fromEntries(labels.map((label, i) => [label, scores[i]!])) };
}

/** Softmax in float64. */
export function softmax(values: readonly number[]): number[] {
  const max = Math.max(...values);
  const powers = values.map((value) => Math.exp(value - max));
  const sum = powers.reduce((total, power) => total + power, 0);
  return powers.map((power) => power / sum);
}

function classifyAnswer(
  { model, form }: AnswerAbout<ClassifyForm>,
  { data, promptTokens, ...result }: ClassifyResult,
): typeof ClassifyAnswer._output {
  checkScores(data.flatMap(({ scores }) => Object.values(scores)));
  return {
    object: 'classification',
    model,
    data: data.map(({ label, scores }, index) => ({ index, label, scores })),
    usage: { prompt_tokens: promptTokens },
    ...costParts(form, result),
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
