/** Quotes requests in the engine process, and learns from each answer how far its quote was off. */
import type { ExpertCost } from '../protocol/expert-cost.js';
import type { PassRates, Quantiles, Quote } from '../protocol/quote.js';
import { type Asked, askedOf, type CostModel, type Estimate, estimate, type Load } from './estimate.js';

/** Answers of a kind that are remembered. */
const REMEMBERED = 64;
/** Least weight of the latest answer in a mean. */
const LATEST = 0.05;
/** Of fewer answers, what is expected without any counts as one more. */
const FEW = 10;
/** Before any answer, 90 % are expected to take no more than so many times the estimate. */
const UNMEASURED = 2;

const FIGURES = ['firstSeconds', 'seconds', 'needed', 'bytes'] as const;
type Figure = (typeof FIGURES)[number];

/** What the answers of a kind took, by what was estimated. */
type Ratios = Record<Figure, number[]>;

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
  readonly #ratios = new Map<string, Ratios>();
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
    const ratios = this.#ratiosOf(kind, load);
    for (const figure of FIGURES) {
      if (joined && load.sequences + load.promptTokens === 0 && figure.endsWith('econds')) continue;
      if (told[figure] > 0) ratios[figure].push(took[figure] / told[figure]);
      if (ratios[figure].length > REMEMBERED) ratios[figure].shift();
    }
  }

  #quote(kind: string, asked: Asked, load: Load, encodingMs: number): Quote {
    const { share } = this.#used.get(kind) ?? { share: 1 };
    const half = { ...asked, steps: Math.ceil(asked.steps * share) };
    const [middle, most] = [half, asked].map((each) =>
      this.#estimate(each, load, this.rates, this.#cached),
    ) as [Estimate, Estimate];
    const ratios = this.#ratiosOf(kind, load);
    const quantiles = (figure: Figure, more = 0): Quantiles => {
      const p50 = more + middle[figure] * quantile(ratios[figure], 0.5, 1);
      return { p50, p90: Math.max(p50, more + most[figure] * quantile(ratios[figure], 0.9, UNMEASURED)) };
    };
    return {
      promptTokens: asked.promptTokens,
      maxTokens: asked.answers * asked.steps,
      experts: quantiles('needed'),
      bytes: quantiles('bytes'),
      firstSeconds: quantiles('firstSeconds', encodingMs / 1000),
      seconds: quantiles('seconds', encodingMs / 1000),
      queueSeconds: middle.queueSeconds,
      jobsAhead: this.#open.size,
      measured: ratios.seconds.length,
    };
  }

  #estimate(asked: Asked, load: Load, rates: PassRates | undefined, cached: number): Estimate {
    return estimate(asked, load, this.#model, rates, cached);
  }

  /** Requests beside others are learned from apart. */
  #ratiosOf(kind: string, load: Load): Ratios {
    const key = `${kind} ${load.sequences + load.promptTokens > 0 ? 'beside others' : 'alone'}`;
    const found = this.#ratios.get(key) ?? { firstSeconds: [], seconds: [], needed: [], bytes: [] };
    this.#ratios.set(key, found);
    return found;
  }

  #learnShare(kind: string, share: number): void {
    const used = this.#used.get(kind) ?? { share: 0, answers: 0 };
    used.answers += 1;
    used.share += Math.max(LATEST, 1 / used.answers) * (share - used.share);
    this.#used.set(kind, used);
  }

  #load(): Load {
    const load = { sequences: 0, promptTokens: 0 };
    for (const { asked, begun } of this.#open.values()) {
      if (begun) load.sequences += asked.sequences;
      else load.promptTokens += asked.promptTokens + asked.labelTokens;
    }
    return load;
  }
}

function quantile(values: readonly number[], share: number, without: number): number {
  // A few answers say little about the tenth of ten.
  const known = values.length < FEW ? [...values, without] : values;
  const sorted = [...known].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))]!;
}
