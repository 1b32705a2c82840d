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
  readonly #zeros: Answers;
  readonly #predicted: { own: Answers; random: Answers }[];
  /** By input: right in exact mode less right with experts of zeros. */
  readonly #gains: number[] = [];

  constructor(labels: readonly string[], ks: readonly number[]) {
    const answers = () => new Answers(labels.length === 2);
    this.#labels = labels;
    this.#ks = ks;
    this.#exact = answers();
    this.#zeros = answers();
    this.#predicted = ks.map(() => ({ own: answers(), random: answers() }));
  }

  /** One score per label. */
  add(truth: number, { exact, zeros, predicted }: Outcomes<readonly number[]>): void {
    const answer = bestOf(exact);
    const without = bestOf(zeros);
    this.#exact.add(answer, truth, answer);
    this.#zeros.add(without, truth, answer);
    this.#gains.push(Number(answer === truth) - Number(without === truth));
    predicted.forEach(({ own, random }, i) => {
      this.#predicted[i]!.own.add(bestOf(own), truth, answer);
      this.#predicted[i]!.random.add(bestOf(random), truth, answer);
    });
  }

  result(): LabelFidelity {
    const exact = this.#exact.quality;
    const zeros = this.#zeros.quality;
    const gain = intervalOf(this.#gains);
    const told = isTold(gain);
    const predicted = this.#predicted.map(({ own, random }, i) => ({
      k: this.#ks[i]!,
      ...own.quality,
      fidelity: exact.accuracy === 0 ? null : own.quality.accuracy / exact.accuracy,
      agreement: own.agreeing / own.total,
      unrouted: own.unrouted,
      random: random.quality,
      way: shareOfWay(own.quality.accuracy, zeros.accuracy, exact.accuracy, told),
    }));
    return { labels: [...this.#labels], inputs: this.#gains.length, exact, zeros, gain, told, predicted };
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

class Logprobs {
  sum = 0;
  unrouted = 0;

  add(logprob: number | null): void {
    if (logprob === null) this.unrouted += 1;
    else this.sum += logprob;
  }

  perplexity(tokens: number): number | null {
    return this.unrouted > 0 ? null : Math.exp(-this.sum / tokens);
  }
}

export class PerplexityCounts {
  readonly #ks: readonly number[];
  #tokens = 0;
  readonly #exact = new Logprobs();
  readonly #zeros = new Logprobs();
  readonly #predicted: { own: Logprobs; random: Logprobs }[];
  /** By input: log-probability in exact mode less that with experts of zeros. */
  readonly #gains: number[] = [];

  constructor(ks: readonly number[]) {
    this.#ks = ks;
    this.#predicted = ks.map(() => ({ own: new Logprobs(), random: new Logprobs() }));
  }

  /** Adds the log-probability of a target of `tokens` tokens. */
  add(tokens: number, { exact, zeros, predicted }: Outcomes<number>): void {
    this.#tokens += tokens;
    this.#exact.add(exact);
    this.#zeros.add(zeros);
    this.#gains.push(exact - zeros);
    predicted.forEach(({ own, random }, i) => {
      this.#predicted[i]!.own.add(own);
      this.#predicted[i]!.random.add(random);
    });
  }

  result(): Perplexity {
    const exact = this.#exact.perplexity(this.#tokens)!;
    const zeros = this.#zeros.perplexity(this.#tokens)!;
    const gain = intervalOf(this.#gains);
    const told = isTold(gain);
    const predicted = this.#predicted.map(({ own, random }, i) => {
      const perplexity = own.perplexity(this.#tokens);
      return {
        k: this.#ks[i]!,
        perplexity,
        ratio: perplexity === null ? null : perplexity / exact,
        unrouted: own.unrouted,
        random: random.perplexity(this.#tokens),
        way: perplexity === null ? null : shareOfWay(perplexity, zeros, exact, told),
      };
    });
    return { inputs: this.#gains.length, tokens: this.#tokens, exact, zeros, gain, told, predicted };
  }
}
