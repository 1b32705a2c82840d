/** Compares predicted mode with the exact model: accuracy on labels, perplexity on targets. */

interface LabelQuality {
  /** Share of the inputs with the right answer. */
  accuracy: number;
  /** F1 score of the second of two labels. Null when there are more than two. */
  f1: number | null;
}

interface PredictedQuality extends LabelQuality {
  k: number;
  /** This accuracy divided by the exact one, as the SiDA-MoE paper defines fidelity. Null when the exact one is 0. */
  fidelity: number | null;
  /** Share of the inputs with the same answer as in exact mode. */
  agreement: number;
  /** Inputs that the tables could not route. They count as wrong. */
  unrouted: number;
}

export interface LabelFidelity {
  labels: string[];
  exact: LabelQuality;
  predicted: PredictedQuality[];
}

class Answers {
  readonly #binary: boolean;
  total = 0;
  right = 0;
  agreeing = 0;
  unrouted = 0;
  #truePositive = 0;
  #falsePositive = 0;
  #falseNegative = 0;

  constructor(binary: boolean) {
    this.#binary = binary;
  }

  /** `answer`, `truth` and `exact` are indices of labels. An `answer` of -1 means that there is none. */
  add(answer: number, truth: number, exact: number): void {
    this.total += 1;
    this.right += Number(answer === truth);
    this.agreeing += Number(answer === exact);
    this.unrouted += Number(answer < 0);
    this.#truePositive += Number(answer === 1 && truth === 1);
    this.#falsePositive += Number(answer === 1 && truth !== 1);
    this.#falseNegative += Number(answer !== 1 && truth === 1);
  }

  get quality(): LabelQuality {
    const errors = this.#falsePositive + this.#falseNegative;
    const f1 = (2 * this.#truePositive) / Math.max(1, 2 * this.#truePositive + errors);
    return { accuracy: this.right / this.total, f1: this.#binary ? f1 : null };
  }
}

function bestOf(scores: readonly number[] | null): number {
  return scores === null ? -1 : scores.indexOf(Math.max(...scores));
}

export class LabelCounts {
  readonly #labels: readonly string[];
  readonly #ks: readonly number[];
  readonly #exact: Answers;
  readonly #predicted: Answers[];

  constructor(labels: readonly string[], ks: readonly number[]) {
    this.#labels = labels;
    this.#ks = ks;
    this.#exact = new Answers(labels.length === 2);
    this.#predicted = ks.map(() => new Answers(labels.length === 2));
  }

  /** `exact` and each entry of `predicted` hold one score per label. An entry is null when tables could not route. */
  add(truth: number, exact: readonly number[], predicted: readonly (readonly number[] | null)[]): void {
    const answer = bestOf(exact);
    this.#exact.add(answer, truth, answer);
    predicted.forEach((scores, i) => {
      this.#predicted[i]!.add(bestOf(scores), truth, answer);
    });
  }

  result(): LabelFidelity {
    const exact = this.#exact.quality;
    const predicted = this.#predicted.map((answers, i) => ({
      k: this.#ks[i]!,
      ...answers.quality,
      fidelity: exact.accuracy === 0 ? null : answers.quality.accuracy / exact.accuracy,
      agreement: answers.agreeing / answers.total,
      unrouted: answers.unrouted,
    }));
    return { labels: [...this.#labels], exact, predicted };
  }
}

export interface Perplexity {
  /** Target tokens. */
  tokens: number;
  exact: number;
  /** One entry per k. `perplexity` is null when the tables could not route some inputs, which `unrouted` counts. */
  predicted: { k: number; perplexity: number | null; ratio: number | null; unrouted: number }[];
}

export class PerplexityCounts {
  readonly #ks: readonly number[];
  #tokens = 0;
  #exact = 0;
  readonly #predicted: { logprob: number; unrouted: number }[];

  constructor(ks: readonly number[]) {
    this.#ks = ks;
    this.#predicted = ks.map(() => ({ logprob: 0, unrouted: 0 }));
  }

  /** Adds the log-probability of a target of `tokens` tokens. `predicted` has one entry per k, null when unrouted. */
  add(tokens: number, exact: number, predicted: readonly (number | null)[]): void {
    this.#tokens += tokens;
    this.#exact += exact;
    predicted.forEach((logprob, i) => {
      const sums = this.#predicted[i]!;
      if (logprob === null) sums.unrouted += 1;
      else sums.logprob += logprob;
    });
  }

  result(): Perplexity {
    const exact = Math.exp(-this.#exact / this.#tokens);
    const predicted = this.#predicted.map(({ logprob, unrouted }, i) => {
      const perplexity = unrouted > 0 ? null : Math.exp(-logprob / this.#tokens);
      return {
        k: this.#ks[i]!,
        perplexity,
        ratio: perplexity === null ? null : perplexity / exact,
        unrouted,
      };
    });
    return { tokens: this.#tokens, exact, predicted };
  }
}
