/** Collects the choices of one job from their tokens. */
import type { CompletionDelta } from '../../protocol/engine-messages.js';
import type { GeneratedToken } from '../../protocol/inference-messages.js';
import { ChoiceText, type ChoiceTextOptions } from './choice-text.js';
import type { StoredChoice } from './stored.js';

export class GeneratedChoices {
  readonly #each: number;
  /** The choices of all inputs, input by input. */
  readonly #texts: ChoiceText[];

  /** `each` is the number of choices of every input. */
  constructor(inputs: number, each: number, options: (input: number) => Omit<ChoiceTextOptions, 'index'>) {
    this.#each = each;
    this.#texts = Array.from(
      { length: inputs * each },
      (_, index) => new ChoiceText({ index, ...options(Math.floor(index / each)) }),
    );
  }

  token(input: number, token: GeneratedToken): CompletionDelta | undefined {
    return this.#texts[input * this.#each + token.choice]!.push(token);
  }

  finish(): { choices: StoredChoice[]; completionTokens: number } {
    const choices = this.#texts.map(({ choice }) => choice);
    return { choices, completionTokens: choices.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0) };
  }
}
