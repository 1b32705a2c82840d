/** Converts generated tokens into the choices of a completion. */
import type { CompletionDelta } from '../../protocol/engine-messages.js';
import type { GeneratedToken } from '../../protocol/thread-messages.js';
import type { ModelLimits } from '../shared/prepared-input.js';
import type { JobResults, OwnResult } from '../task.js';
import { ChoiceText } from './choice-text.js';
import type { CompleteJob, CompleteResult } from './job.js';

export class CompleteResults implements JobResults<CompleteResult> {
  readonly #choicesEach: number;
  /** The choices of all prompts, prompt by prompt. */
  readonly #texts: ChoiceText[];
  #beamTokens: number | undefined;

  constructor(job: CompleteJob, limits: ModelLimits) {
    const { maxTokens, stop, prompts, logprobs, choices = 1, showSpecialTokens = false } = job;
    const { shape, texts } = limits;
    const common = {
      maxTokens,
      stop,
      endTokens: shape.tokens.end,
      texts,
      logprobs: logprobs !== null,
      showSpecialTokens,
    };
    this.#choicesEach = choices;
    this.#texts = Array.from(
      { length: prompts.length * choices },
      (_, index) => new ChoiceText({ index, ...common }),
    );
  }

  token(input: number, token: GeneratedToken): CompletionDelta | undefined {
    return this.#texts[input * this.#choicesEach + token.choice]!.push(token);
  }

  beamTokens(tokens: number): void {
    this.#beamTokens = (this.#beamTokens ?? 0) + tokens;
  }

  finish(): OwnResult<CompleteResult> {
    const choices = this.#texts.map(({ choice }) => choice);
    const completionTokens = choices.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0);
    const beamTokens = this.#beamTokens;
    return { choices, completionTokens, ...(beamTokens !== undefined && { beamTokens }) };
  }
}
