/** Converts the log-probabilities of labels into the scores of each input. */
import type { JobResults, OwnResult } from '../task.js';
import type { Classification, ClassifyJob, ClassifyResult } from './job.js';
import { softmax } from './softmax.js';

export class ClassifyResults implements JobResults<ClassifyResult> {
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
