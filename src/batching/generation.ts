/** One choice of an input as its tokens are picked. */
import type { GenerateWork } from '../protocol/item-work.js';
import type { GeneratedToken } from '../protocol/thread-messages.js';
import { type PassSequence, type PickedToken, type TokenPick, tokenOf } from './pass-batch.js';

/** An input that has started, and what it holds until all of it is done. */
export interface RunningInput {
  item: number;
  job: number;
  /** KV pages of all its sequences. */
  pages: number;
  /** Experts that tables route its tokens to; 0: the model's routers do. */
  routingK: number;
  /** Sequence of its prompt. Later sequences attend across to it (encoder-decoder) or continue it. */
  prompt: number;
}

export interface Generation {
  input: RunningInput;
  /** Of its input's choices. */
  choice: number;
  work: GenerateWork;
  sequence: number;
  /** The sequence that it attends across to or continues; NO_PARENT: it is the prompt's own sequence. */
  parent: number;
  /** Tokens that its sequence has. */
  length: number;
  /** Fed with its next pass: the start token first, or the last of the prompt. */
  nextToken: number;
  tokensLeft: number;
}

/** The generation's part of the next pass: the token to feed and the token to pick. */
export function nextStep(generation: Generation): PassSequence {
  const { input, sequence, parent, length, nextToken } = generation;
  const picks = [pickAt(generation, length + 1)];
  return { job: input.job, sequence, parent, tokens: [nextToken], picks };
}

export function pickAt({ work, choice }: Pick<Generation, 'work' | 'choice'>, position: number): TokenPick {
  return { sampling: work.choices[choice]!, position, top: work.logprobs ?? 0 };
}

/** Takes the token that a pass picked after `nextToken`; throws nonfinite_output. */
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
