/**
 * Compares predicted mode with the exact model: accuracy on labels, perplexity on targets. Two controls stand beside
 * every figure: random tables, and experts of zeros. Without them a model whose experts do not matter looks faithful.
 */
import { type Interval, intervalOf, isTold, shareOfWay } from './paired-difference.js';

interface LabelQuality {
  /** Share of the inputs with the right answer. */
  accuracy: number;
  /** F1 score of the second of two labels. Null when there are more than two. */
  f1: number | null;
}

interface Controls {
  /** The exact figure less that of experts of zeros, by input; above 0 the experts help. Null for a single input. */
  gain: Interval | null;
  /** Whether that is more than chance. Otherwise no share of the way can be told. */
  told: boolean;
}

interface PredictedQuality extends LabelQuality {
  k: number;
  /** This accuracy divided by the exact one, as the SiDA-MoE paper defines fidelity. Null when the exact one is 0. */
  fidelity: number | null;
  /** Share of the inputs with the same answer as in exact mode. */
  agreement: number;
  /** Inputs that the tables could not route. They count as wrong. */
  unrouted: number;
  /** The same tables with the experts of each layer renamed. */
  random: LabelQuality;
  /** Share of the way from experts of zeros to exact, in accuracy; null where it cannot be told. */
  way: number | null;
}

export interface LabelFidelity extends Controls {
  labels: string[];
  inputs: number;
  exact: LabelQuality;
  /** The model with experts of zeros. */
  zeros: LabelQuality;
  predicted: PredictedQuality[];
}

/** What an input got in each way of running it: scores of its labels, or the log-probability of its targets. */
export interface Outcomes<T> {
  exact: T;
  zeros: T;
  /** One entry per k. Both are null when the tables could not route the input. */
  predicted: readonly { own: T | null; random: T | null }[];
}

/** Index of the label with the highest score; -1 without scores. */
function bestOf(scores: readonly number[] | null): number {
  return scores === null ? -1 : scores.indexOf(Math.max(...scores));
}

/** The label that an input should get, and those that it got. */
interface Answers {
  truth: number;
  exact: number;
  zeros: number;
  predicted: { own: number; random: number }[];
}

export class LabelCounts {
  readonly #labels: readonly string[];
  readonly #ks: readonly number[];
  readonly #inputs: Answers[] = [];

  constructor(labels: readonly string[], ks: readonly number[]) {
    this.#labels = labels;
    this.#ks = ks;
  }

  /** One score per label. */
  add(truth: number, { exact, zeros, predicted }: Outcomes<readonly number[]>): void {
    const answers = predicted.map(({ own, random }) => ({ own: bestOf(own), random: bestOf(random) }));
    this.#inputs.push({ truth, exact: bestOf(exact), zeros: bestOf(zeros), predicted: answers });
  }

  result(): LabelFidelity {
    const inputs = this.#inputs;
    const exact = this.#quality((input) => input.exact);
    const zeros = this.#quality((input) => input.zeros);
    const gain = intervalOf(
      inputs.map(({ truth, exact, zeros }) => Number(exact === truth) - Number(zeros === truth)),
    );
    const told = isTold(gain);
    const predicted = this.#ks.map((k, i) => {
      const own = this.#quality(({ predicted }) => predicted[i]!.own);
      const agreeing = inputs.filter(({ exact, predicted }) => predicted[i]!.own === exact).length;
      return {
        k,
        ...own,
        fidelity: exact.accuracy === 0 ? null : own.accuracy / exact.accuracy,
        agreement: agreeing / inputs.length,
        unrouted: inputs.filter(({ predicted }) => predicted[i]!.own < 0).length,
        random: this.#quality(({ predicted }) => predicted[i]!.random),
        way: shareOfWay(own.accuracy, zeros.accuracy, exact.accuracy, told),
      };
    });
    return { labels: [...this.#labels], inputs: inputs.length, exact, zeros, gain, told, predicted };
  }

  #quality(answerOf: (input: Answers) => number): LabelQuality {
    const count = (holds: (answer: number, truth: number) => boolean) =>
      this.#inputs.filter((input) => holds(answerOf(input), input.truth)).length;
    const positive = 2 * count((answer, truth) => answer === 1 && truth === 1);
    const errors = count((answer, truth) => (answer === 1) !== (truth === 1));
    const accuracy = count((answer, truth) => answer === truth) / this.#inputs.length;
    return { accuracy, f1: this.#labels.length === 2 ? positive / Math.max(1, positive + errors) : null };
  }
}

interface PredictedPerplexity {
  k: number;
  /** Null, as are the ratio and the share, when the tables could not route some inputs, which `unrouted` counts. */
  perplexity: number | null;
  ratio: number | null;
  unrouted: number;
  random: number | null;
  /** Share of the way from experts of zeros to exact, in perplexity; null also where it cannot be told. */
  way: number | null;
}

export interface Perplexity extends Controls {
  inputs: number;
  /** Target tokens. */
  tokens: number;
  exact: number;
  zeros: number;
  /** One entry per k. */
  predicted: PredictedPerplexity[];
}

export class PerplexityCounts {
  readonly #ks: readonly number[];
  readonly #inputs: Outcomes<number>[] = [];
  #tokens = 0;

  constructor(ks: readonly number[]) {
    this.#ks = ks;
  }

  /** Adds the log-probability of a target of `tokens` tokens. */
  add(tokens: number, outcomes: Outcomes<number>): void {
    this.#tokens += tokens;
    this.#inputs.push(outcomes);
  }

  result(): Perplexity {
    const inputs = this.#inputs;
    const perplexityOf = (logprobs: readonly (number | null)[]) =>
      logprobs.includes(null)
        ? null
        : Math.exp(-logprobs.reduce<number>((sum, each) => sum + each!, 0) / this.#tokens);
    const exact = perplexityOf(inputs.map((input) => input.exact))!;
    const zeros = perplexityOf(inputs.map((input) => input.zeros))!;
    const gain = intervalOf(inputs.map(({ exact, zeros }) => exact - zeros));
    const told = isTold(gain);
    const predicted = this.#ks.map((k, i) => {
      const own = inputs.map(({ predicted }) => predicted[i]!.own);
      const perplexity = perplexityOf(own);
      return {
        k,
        perplexity,
        ratio: perplexity === null ? null : perplexity / exact,
        unrouted: own.filter((logprob) => logprob === null).length,
        random: perplexityOf(inputs.map(({ predicted }) => predicted[i]!.random)),
        way: perplexity === null ? null : shareOfWay(perplexity, zeros, exact, told),
      };
    });
    return { inputs: inputs.length, tokens: this.#tokens, exact, zeros, gain, told, predicted };
  }
}
