/** The sequences that take one token a pass: the choices of a request, and the beams of a search. */
import type { GeneratedToken } from '../protocol/inference-messages.js';
import type { GenerateWork } from '../protocol/item-work.js';
import type { LogitAdjustments } from '../protocol/sampling.js';
import type { Matcher } from '../structured-output/matchers.js';
import {
  type PassSequence,
  type PickedToken,
  type TokenCounts,
  type TokenPick,
  tokenOf,
} from './pass-batch.js';
import type { Request } from './request.js';

/** A sequence that is fed one token a pass. */
export interface RunningSequence {
  readonly request: Request;
  readonly sequence: number;
  /** The sequence that this one attends to or continues; NO_PARENT if it is the prompt's own sequence. */
  readonly parent: number;
  /** Token to feed in the next pass; initially the start token or the last token of the prompt. */
  nextToken: number;
  /** What the pass must pick after it. */
  pick(): TokenPick;
}

export function nextStep(running: RunningSequence): PassSequence {
  const { request, sequence, parent, nextToken } = running;
  return { job: request.job, sequence, parent, tokens: [nextToken], picks: [running.pick()] };
}

export function pickAt(
  { work, choice, matcher }: Pick<Generation, 'work' | 'choice' | 'matcher'>,
  position: number,
  seen: SeenTokens,
): TokenPick {
  const { choices, logprobs, adjustments, experts } = work;
  return {
    sampling: choices[choice]!,
    position,
    top: logprobs ?? 0,
    allowed: matcher,
    experts,
    ...(adjustments && { adjustments: { ...adjustments, seen: seen.counts } }),
  };
}

interface GenerationStart extends Pick<RunningSequence, 'request' | 'sequence' | 'parent' | 'nextToken'> {
  choice: number;
  work: GenerateWork;
  /** Follows the grammar that binds the choice; undefined if none does. */
  matcher: Matcher | undefined;
  /** Tokens in the sequence. */
  length: number;
  /** What penalties count beside the generated tokens. */
  prompt: ArrayLike<number>;
}

/** The state of one choice of a request while its tokens are generated. */
export class Generation implements RunningSequence {
  readonly request: Request;
  /** Changes when the generation is computed again. */
  sequence: number;
  readonly parent: number;
  /** Index among the choices of the request. */
  readonly choice: number;
  readonly work: GenerateWork;
  readonly matcher: Matcher | undefined;
  nextToken: number;
  #length: number;
  /** Tokens generated. */
  readonly #generated: number[] = [];
  readonly #seen: SeenTokens;

  constructor({
    request,
    sequence,
    parent,
    choice,
    work,
    matcher,
    length,
    nextToken,
    prompt,
  }: GenerationStart) {
    this.request = request;
    this.sequence = sequence;
    this.parent = parent;
    this.choice = choice;
    this.work = work;
    this.matcher = matcher;
    this.nextToken = nextToken;
    this.#length = length;
    this.#seen = new SeenTokens(work.adjustments, prompt);
  }

  pick(): TokenPick {
    return pickAt(this, this.#length + 1, this.#seen);
  }

  /** Whether a pass may pick its next token. */
  get ready(): boolean {
    return this.matcher?.ready ?? true;
  }

  /** Records the token that a pass picked after `nextToken`. Throws nonfinite_output and what its matcher throws. */
  take(picked: PickedToken): GeneratedToken {
    const { request, choice, work } = this;
    const { forcedFirst } = work;
    const first = this.#generated.length === 0 && forcedFirst !== undefined;
    const { id, logprob, top } = first ? certain(forcedFirst, work) : { ...picked, id: tokenOf(picked) };
    this.matcher?.take(id);
    this.#length += 1;
    this.#generated.push(id);
    this.#seen.add(id);
    this.nextToken = id;
    const { experts } = picked;
    return {
      ...{ item: request.item, choice, id },
      ...(work.logprobs !== null && { logprobs: { logprob, top } }),
      ...(experts && { experts }),
    };
  }

  /** Tokens in the sequence. */
  get length(): number {
    return this.#length;
  }

  /** The prompt that it continues, and what it generated. The sequence has not been fed the last token. */
  get tokens(): Int32Array {
    const { tokens: prompt } = this.request;
    const tokens = new Int32Array(prompt.length + this.#generated.length);
    tokens.set(prompt);
    tokens.set(this.#generated, prompt.length);
    return tokens;
  }

  hasEnded(endTokens: readonly number[]): boolean {
    return this.#generated.length === this.work.maxTokens || endTokens.includes(this.nextToken);
  }
}

/** The pick of a token that leaves no choice. */
function certain(id: number, { logprobs }: GenerateWork): PickedToken {
  return { id, logprob: 0, top: logprobs ? [{ id, logprob: 0 }] : [] };
}

/** The tokens of a sequence that penalties count, as the native engine reads them. */
export class SeenTokens {
  readonly #counted: boolean;
  /** Where each token stands in the arrays, which have room for more. */
  readonly #places = new Map<number, number>();
  #ids: Int32Array = new Int32Array(16);
  #times: Uint32Array = new Uint32Array(16);

  /** `prompt` is what the sequence has before its first generated token. */
  constructor(adjustments: LogitAdjustments | undefined, prompt: ArrayLike<number>) {
    const { presence = 0, frequency = 0, repetition = 1 } = adjustments ?? {};
    this.#counted = presence !== 0 || frequency !== 0 || repetition !== 1;
    if (repetition === 1) return;
    for (let i = 0; i < prompt.length; ++i) this.#placeOf(prompt[i]!);
  }

  /** Counts a generated token. */
  add(id: number): void {
    if (!this.#counted) return;
    // The arrays may be replaced by larger ones.
    const place = this.#placeOf(id);
    this.#times[place]! += 1;
  }

  /** Valid until the next `add`. */
  get counts(): TokenCounts {
    const { size } = this.#places;
    return { ids: this.#ids.subarray(0, size), times: this.#times.subarray(0, size) };
  }

  #placeOf(id: number): number {
    const known = this.#places.get(id);
    if (known !== undefined) return known;
    const place = this.#places.size;
    if (place === this.#ids.length) {
      const [ids, times] = [this.#ids, this.#times];
      this.#ids = new Int32Array(2 * place);
      this.#times = new Uint32Array(2 * place);
      this.#ids.set(ids);
      this.#times.set(times);
    }
    this.#places.set(id, place);
    this.#ids[place] = id;
    return place;
  }
}
