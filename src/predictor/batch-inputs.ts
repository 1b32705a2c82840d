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
export function batchInputs(batch: PromptBatch, { stacks }: Pick<RoutingShape, 'stacks'>): StackInputs {
  const { tokens, offsets } = batch;
  const labels = new Sequences();
  batch.items.forEach(({ work }, i) => {
    if (work.kind !== 'score') return;
    const prompt = tokens.subarray(offsets[i], offsets[i + 1]);
    for (const input of work.plan.inputs) labels.add(input.tokens, prompt);
  });
  if (labels.empty) return stacks.map((_, s) => (s === 0 ? { tokens, offsets } : null));
  if (stacks.length > 1) return [{ tokens, offsets }, labels.input()];
  const prompts = new Sequences();
  for (let i = 0; i + 1 < offsets.length; i++) prompts.add(tokens.subarray(offsets[i], offsets[i + 1]));
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
