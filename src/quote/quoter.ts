/** Quotes requests in the engine process, and learns from each answer how far its quote was off. */
import type { ExpertCost } from '../protocol/expert-cost.js';
import type { PassRates, Quantiles, Quote } from '../protocol/quote.js';
import { type Asked, askedOf, type CostModel, type Estimate, estimate, type Load } from './estimate.js';
import { NO_FIT, solve, withObservation } from './least-squares.js';

/** Answers of a kind that are remembered. */
const REMEMBERED = 64;
/** Least weight of the latest answer in a mean. */
const LATEST = 0.05;
/** Of fewer answers, what is expected without any counts as one more. */
const FEW = 10;
/** Before any answer, 90 % are expected to take no more than so many times the estimate. */
const UNMEASURED = 2;

/** Estimates that are more alike tell noise alone: a constant part from the rest. */
const APART = 0.05;

const FIGURES = ['firstSeconds', 'seconds', 'needed', 'bytes'] as const;
type Figure = (typeof FIGURES)[number];

/** What was estimated of an answer, and what it took. */
type Pair = readonly [told: number, took: number];
type Pairs = Record<Figure, Pair[]>;

interface OpenJob {
  kind: string;
  asked: Asked;
  load: Load;
  rates: PassRates | undefined;
  quote: Quote;
  /** Whether it generates. */
  begun: boolean;
  /** Whether others came after it, which its quote could not know. */
  joined: boolean;
}

export interface Outcome {
  /** From the end of its tokenizing. */
  firstSeconds: number;
  seconds: number;
  cost: Pick<ExpertCost, 'needed' | 'bytes'>;
  promptTokens: number;
  cachedTokens: number;
  completionTokens: number;
}

export class Quoter {
  /** Undefined before the first passes. */
  rates: PassRates | undefined;
  /** Answers, and those that took no longer than 90 % of answers were expected to. */
  readonly counts = { answers: 0, within: 0 };
  readonly #model: CostModel;
  readonly #open = new Map<number, OpenJob>();
  readonly #pairs = new Map<string, Pairs>();
  /** By kind: mean share of the most tokens that answers used. */
  readonly #used = new Map<string, { share: number; answers: number }>();
  #cached = 0;

  constructor(model: CostModel) {
    this.#model = model;
  }

  /** `encodingMs` is what the tokenizer took. */
  quote(kind: string, inputs: Parameters<typeof askedOf>[0], encodingMs: number): Quote {
    return this.#quote(kind, askedOf(inputs), this.#load(), encodingMs);
  }

  /** As `quote`, for a job that begins. Call `dropped` when it has ended in any way. */
  admit(job: number, kind: string, inputs: Parameters<typeof askedOf>[0], encodingMs: number): Quote {
    const asked = askedOf(inputs);
    const load = this.#load();
    const quote = this.#quote(kind, asked, load, encodingMs);
    for (const other of this.#open.values()) other.joined = true;
    this.#open.set(job, { kind, asked, load, rates: this.rates, quote, begun: false, joined: false });
    return quote;
  }

  begun(job: number): void {
    const open = this.#open.get(job);
    if (open !== undefined) open.begun = true;
  }

  dropped(job: number): void {
    this.#open.delete(job);
  }

  answered(job: number, outcome: Outcome, encodingMs: number): void {
    const open = this.#open.get(job);
    if (open === undefined) return;
    const { kind, asked, load, rates, quote, joined } = open;
    this.counts.answers += 1;
    if (outcome.seconds + encodingMs / 1000 <= quote.seconds.p90) this.counts.within += 1;
    const { promptTokens, cachedTokens, completionTokens, cost } = outcome;
    this.#cached += LATEST * (cachedTokens / Math.max(1, promptTokens) - this.#cached);
    if (asked.answers > 0) this.#learnShare(kind, completionTokens / (asked.answers * asked.steps));
    // Tokens of the answer were unknown. What is learned here is how far the rest was off.
    const steps = asked.answers > 0 ? Math.ceil(completionTokens / asked.answers) : 0;
    const told = this.#estimate({ ...asked, steps }, load, rates, cachedTokens / Math.max(1, promptTokens));
    const took = { ...outcome, needed: cost.needed, bytes: cost.bytes };
    const pairs = this.#pairsOf(kind, load);
    for (const figure of FIGURES) {
      if (joined && load.sequences + load.promptTokens === 0 && figure.endsWith('econds')) continue;
      if (told[figure] > 0) pairs[figure].push([told[figure], took[figure]]);
      if (pairs[figure].length > REMEMBERED) pairs[figure].shift();
    }
  }

  #quote(kind: string, asked: Asked, load: Load, encodingMs: number): Quote {
    const { share } = this.#used.get(kind) ?? { share: 1 };
    const half = { ...asked, steps: Math.ceil(asked.steps * share) };
    const [middle, most] = [half, asked].map((each) =>
      this.#estimate(each, load, this.rates, this.#cached),
    ) as [Estimate, Estimate];
    const pairs = this.#pairsOf(kind, load);
    const quantiles = (figure: Figure, more = 0): Quantiles => {
      const corrected = correction(pairs[figure]);
      const p50 = more + corrected(middle[figure], 0.5);
      return { p50, p90: Math.max(p50, more + corrected(most[figure], 0.9)) };
    };
    return {
      promptTokens: asked.promptTokens,
      maxTokens: asked.answers * asked.steps,
      experts: quantiles('needed'),
      bytes: quantiles('bytes'),
      firstSeconds: quantiles('firstSeconds', encodingMs / 1000),
      seconds: quantiles('seconds', encodingMs / 1000),
      queueSeconds: middle.queueSeconds,
      aloneSeconds: middle.aloneSeconds,
      jobsAhead: this.#open.size,
      measured: pairs.seconds.length,
    };
  }

  #estimate(asked: Asked, load: Load, rates: PassRates | undefined, cached: number): Estimate {
    return estimate(asked, load, this.#model, rates, cached);
  }

  /** Requests beside others are learned from apart. */
  #pairsOf(kind: string, load: Load): Pairs {
    const key = `${kind} ${load.sequences + load.promptTokens > 0 ? 'beside others' : 'alone'}`;
    const found = this.#pairs.get(key) ?? { firstSeconds: [], seconds: [], needed: [], bytes: [] };
    this.#pairs.set(key, found);
    return found;
  }

  #learnShare(kind: string, share: number): void {
    const used = this.#used.get(kind) ?? { share: 0, answers: 0 };
    used.answers += 1;
    used.share += Math.max(LATEST, 1 / used.answers) * (share - used.share);
    this.#used.set(kind, used);
  }

  #load(): Load {
    const load = { sequences: 0, promptTokens: 0, coming: 0, comingTokens: 0 };
    for (const { asked, begun } of this.#open.values()) {
      if (begun) load.sequences += asked.sequences;
      else load.promptTokens += asked.promptTokens + asked.labelTokens;
      if (asked.steps === 0) continue;
      load.coming += 1 / asked.steps;
      load.comingTokens += asked.promptTokens / asked.steps;
    }
    if (load.coming > 0) load.comingTokens = Math.round(load.comingTokens / load.coming);
    return load;
  }
}

/** What an estimate becomes after answers that took a + b · estimate, and of what is left the quantile. */
function correction(pairs: readonly Pair[]): (told: number, share: number) => number {
  const few = pairs.length < FEW;
  const fit = few
    ? undefined
    : solve(
        pairs.reduce((sums, [told, took]) => withObservation(sums, [1 / told, 1, took / told], 1), NO_FIT),
        APART,
      );
  // A line that does not rise would quote a long request as a short one.
  const [fixed, factor] = fit !== undefined && fit[1] > 0 ? fit : [0, 1];
  const middle = (told: number) => fixed + factor * told;
  const left = pairs.map(([told, took]) => took / Math.max(Number.MIN_VALUE, middle(told)));
  return (told, share) =>
    middle(told) * quantile(few ? [...left, share > 0.5 ? UNMEASURED : 1] : left, share);
}

function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))]!;
}
