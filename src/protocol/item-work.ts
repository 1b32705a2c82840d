/** The work for one input: score labels, generate tokens, search for the best texts with beams, or embed it. */
import type { LogitAdjustments, Sampling } from './sampling.js';

export type ItemWork = { kind: 'score'; plan: ScoringPlan } | GenerateWork | SearchWork | EmbedWork;

export interface GenerateWork {
  kind: 'generate';
  /** Limit for each choice. */
  maxTokens: number;
  /** Number of most likely tokens to report for each generated one; null for no log-probabilities. */
  logprobs: number | null;
  /** Whether to report the log-probabilities of the prompt's tokens, too. Only for decoder-only models. */
  promptLogprobs?: true;
  /** Sampling of each choice; null picks the most likely token. */
  choices: readonly (Sampling | null)[];
  /** Whether to report the experts of each generated token. */
  experts?: true;
  /** Penalties and biases of every choice. */
  adjustments?: LogitAdjustments;
  /** What every choice must follow. */
  grammar?: GrammarWork;
  /** Every choice begins with this token, whatever the model prefers. Only for encoder-decoder models. */
  forcedFirst?: number;
}

/** A grammar, and the grammar thread on which its matchers run. */
export interface GrammarWork {
  /** A `Grammar` as text. */
  text: string;
  thread: number;
  /** The field of the request that demands it, which errors name. */
  param: string;
}

/** The mean of the input's last hidden states. */
export interface EmbedWork {
  kind: 'embed';
}

export interface BeamSettings {
  /** At least 2. */
  beams: number;
  /** Exponent of a hypothesis's length, which its summed log-probability is divided by. */
  lengthPenalty: number;
  /**
   * When the search ends, once as many hypotheses have ended as there are beams. True: at once. False: when the best
   * running beam, scored at its present length, is no better than the worst of them. `never`: the same, but a beam is
   * scored at the greatest length if longer texts score better.
   */
  earlyStopping: boolean | 'never';
}

/** A beam search. Only for encoder-decoder models. */
export interface SearchWork extends BeamSettings {
  kind: 'search';
  maxTokens: number;
  /** Number of best texts to return, at most `beams`. They are the input's choices, best first. */
  best: number;
  forcedFirst?: number;
}

/** Tokens that are fed for the labels of one input. */
export function planTokens({ inputs }: ScoringPlan): number {
  return inputs.reduce((sum, { tokens }) => sum + tokens.length, 0);
}

/** Tokens of each sequence after the prompt: of each label's input, choice or beam. */
export function fedTokens(work: ItemWork): number[] {
  if (work.kind === 'score') return work.plan.inputs.map(({ tokens }) => tokens.length);
  if (work.kind === 'embed') return [];
  const sequences = work.kind === 'search' ? work.beams : work.choices.length;
  return new Array(sequences).fill(work.maxTokens);
}

/** Parts of an input that end by themselves: the choices of a generation. */
export function partsOf(work: ItemWork): number {
  return work.kind === 'generate' ? work.choices.length : 1;
}

export function labelTokens(work: ItemWork): number {
  return work.kind === 'score' ? planTokens(work.plan) : 0;
}

/** A log-probability that a row of logits must provide. */
export interface ScoringTarget {
  label: number;
  /** Position of the token in its label. */
  step: number;
  token: number;
}

export interface ScoringRow {
  /** Index of the input's token whose logits are needed. */
  position: number;
  targets: ScoringTarget[];
}

export interface ScoringPlan {
  labels: number;
  /** Targets of the prompt's last row, if labels continue the prompt. Empty if labels begin with a start token. */
  first: ScoringTarget[];
  /**
   * Inputs to feed: the start token, if any, and a label without its last token. No input is a prefix of another.
   * `rows` are in ascending order.
   */
  inputs: { tokens: number[]; rows: ScoringRow[] }[];
}
