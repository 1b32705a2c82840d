/** Builds the inputs of a hash function for a batch from the tokens that are known before the batch runs. */
import type { PromptBatch } from '../protocol/inference-messages.js';
import type { StackInputs } from '../protocol/predictor-messages.js';
import { concatenated } from '../ragged.js';
import type { HashInput, RoutingShape } from './hash-function.js';

/**
 * For an encoder-decoder model the input holds the prompts and the label tokens that the decoder is fed. For a model
 * with one stack it holds the prompts and then, input by input, the label tokens behind them. The tokens of a
 * generation are not included: they are predicted step by step.
 */
export function batchInputs(
  { requests }: PromptBatch,
  { stacks }: Pick<RoutingShape, 'stacks'>,
): StackInputs {
  const prompts = new Sequences();
  const labels = new Sequences();
  for (const { tokens, work } of requests) {
    prompts.add(tokens);
    if (work.kind !== 'score') continue;
    for (const input of work.plan.inputs) labels.add(input.tokens, tokens);
  }
  if (labels.empty) return stacks.map((_, s) => (s === 0 ? prompts.plainInput() : null));
  if (stacks.length > 1) return [prompts.plainInput(), labels.input()];
  return [prompts.followedBy(labels).input()];
}

/** Sequences one after the other, with the context of each. */
class Sequences {
  readonly #sequences: { tokens: ArrayLike<number>; context: ArrayLike<number> }[] = [];

  get empty(): boolean {
    return this.#sequences.length === 0;
  }

  add(tokens: ArrayLike<number>, context: ArrayLike<number> = []): void {
    this.#sequences.push({ tokens, context });
  }

  followedBy(others: Sequences): Sequences {
    this.#sequences.push(...others.#sequences);
    return this;
  }

  plainInput(): HashInput {
    const { values: tokens, offsets } = concatenated(this.#sequences.map((each) => each.tokens));
    return { tokens, offsets };
  }

  input(): HashInput {
    const [own, contexts] = [
      concatenated(this.#sequences.map(({ tokens }) => tokens)),
      concatenated(this.#sequences.map(({ context }) => context)),
    ];
    return {
      tokens: own.values,
      offsets: own.offsets,
      contextTokens: contexts.values,
      contextOffsets: contexts.offsets,
    };
  }
}
