/** What is asked of one input: log-probabilities of labels, or new tokens. */
import type { Sampling } from './sampling.js';

export type ItemWork = { kind: 'score'; plan: ScoringPlan } | GenerateWork;

export interface GenerateWork {
  kind: 'generate';
  /** Of each choice. */
  maxTokens: number;
  /** Most likely tokens to name for each generated one; null for none. */
  logprobs: number | null;
  /** How each choice is drawn; null: the most likely token always. */
  choices: readonly (Sampling | null)[];
}

/** What one row of logits is asked for. */
export interface ScoringTarget {
  label: number;
  /** Place of the token in its label. */
  step: number;
  token: number;
}

export interface ScoringRow {
  /** Token of the input whose logits are wanted. */
  position: number;
  targets: ScoringTarget[];
}

export interface ScoringPlan {
  labels: number;
  /** Asked of the prompt's last row, where labels continue the prompt; empty where they begin with a start token. */
  first: ScoringTarget[];
  /**
   * What is fed: labels without their last token, after the start token; none is the beginning of another. `rows`
   * ascend.
   */
  inputs: { tokens: number[]; rows: ScoringRow[] }[];
}
