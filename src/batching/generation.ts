/** The sequences that take one token a pass: the choices of an input, and the beams of a search. */
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

/** A sequence that is fed one token a pass. */
export interface RunningSequence {
  readonly input: RunningInput;
  readonly sequence: number;
  /** The sequence that this one attends to or continues; NO_PARENT if it is the prompt's own sequence. */
  readonly parent: number;
  /** Token to feed in the next pass; initially the start token or the last token of the prompt. */
  nextToken: number;
  /** What the pass must pick after it. */
  pick(): TokenPick;
}

export function nextStep(running: RunningSequence): PassSequence {
  const { input, sequence, parent, nextToken } = running;
  return { job: input.job, sequence, parent, tokens: [nextToken], picks: [running.pick()] };
}

export function pickAt({ work, choice }: Pick<Generation, 'work' | 'choice'>, position: number): TokenPick {
  return { sampling: work.choices[choice]!, position, top: work.logprobs ?? 0 };
}

interface GenerationStart extends Pick<RunningSequence, 'input' | 'sequence' | 'parent' | 'nextToken'> {
  choice: number;
  work: GenerateWork;
  /** Tokens in the sequence. */
  length: number;
}

/** The state of one choice of an input while its tokens are generated. */
export class Generation implements RunningSequence {
  readonly input: RunningInput;
  readonly sequence: number;
  readonly parent: number;
  /** Index among the input's choices. */
  readonly choice: number;
  readonly work: GenerateWork;
  nextToken: number;
  #length: number;
  #generated = 0;

  constructor({ input, sequence, parent, choice, work, length, nextToken }: GenerationStart) {
    this.input = input;
    this.sequence = sequence;
    this.parent = parent;
    this.choice = choice;
    this.work = work;
    this.nextToken = nextToken;
    this.#length = length;
  }

  pick(): TokenPick {
    return pickAt(this, this.#length + 1);
  }

  /** Records the token that a pass picked after `nextToken`. Throws nonfinite_output. */
  take(picked: PickedToken): GeneratedToken {
    const { input, choice, work } = this;
    const { forcedFirst } = work;
    const first = this.#generated === 0 && forcedFirst !== undefined;
    const { id, logprob, top } = first ? certain(forcedFirst, work) : { ...picked, id: tokenOf(picked) };
    this.#length += 1;
    this.#generated += 1;
    this.nextToken = id;
    return { item: input.item, choice, id, ...(work.logprobs !== null && { logprobs: { logprob, top } }) };
  }

  hasEnded(endTokens: readonly number[]): boolean {
    return this.#generated === this.work.maxTokens || endTokens.includes(this.nextToken);
  }
}

/** The pick of a token that leaves no choice. */
function certain(id: number, { logprobs }: GenerateWork): PickedToken {
  return { id, logprob: 0, top: logprobs ? [{ id, logprob: 0 }] : [] };
}
