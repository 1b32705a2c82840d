/** The state of one choice of an input while its tokens are generated. */
import type { GenerateWork } from '../protocol/item-work.js';
import type { GeneratedToken } from '../protocol/thread-messages.js';
import type { PageNeed } from './kv-pages.js';
import { type PassSequence, type PickedToken, type TokenPick, tokenOf } from './pass-batch.js';

/** An input that has started, and the resources it holds until all its parts are done. */
export interface RunningInput {
  item: number;
  job: number;
  /** KV pages of all its sequences. */
  pages: PageNeed;
  /** Experts per token if tables route the input; 0 if the model's routers do. */
  routingK: number;
  /** Sequence of the prompt. Later sequences attend to it (encoder-decoder) or continue it (decoder-only). */
  prompt: number;
}

export interface Generation {
  input: RunningInput;
  /** Index among the input's choices. */
  choice: number;
  work: GenerateWork;
  sequence: number;
  /** The sequence that this one attends to or continues; NO_PARENT if it is the prompt's own sequence. */
  parent: number;
  /** Tokens in the sequence. */
  length: number;
  /** Token to feed in the next pass; initially the start token or the last token of the prompt. */
  nextToken: number;
  tokensLeft: number;
}

/** Describes the next step of a generation for a pass: the token to feed and the token to pick. */
export function nextStep(generation: Generation): PassSequence {
  const { input, sequence, parent, length, nextToken } = generation;
  const picks = [pickAt(generation, length + 1)];
  return { job: input.job, sequence, parent, tokens: [nextToken], picks };
}

export function pickAt({ work, choice }: Pick<Generation, 'work' | 'choice'>, position: number): TokenPick {
  return { sampling: work.choices[choice]!, position, top: work.logprobs ?? 0 };
}

/** Records the token that a pass picked after `nextToken`. Throws nonfinite_output. */
export function takeToken(generation: Generation, picked: PickedToken): GeneratedToken {
  const { input, choice, work } = generation;
  const id = tokenOf(picked);
  generation.length += 1;
  generation.nextToken = id;
  generation.tokensLeft -= 1;
  const { logprob, top } = picked;
  return { item: input.item, choice, id, ...(work.logprobs !== null && { logprobs: { logprob, top } }) };
}

export function hasEnded({ nextToken, tokensLeft }: Generation, endTokens: readonly number[]): boolean {
  return tokensLeft === 0 || endTokens.includes(nextToken);
}
