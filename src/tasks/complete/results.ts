/** Converts generated tokens into the choices of a completion. */
import type { CompletionDelta } from '../../protocol/engine-messages.js';
import type { GeneratedToken } from '../../protocol/inference-messages.js';
import { plainTexts } from '../shared/choice-text.js';
import { GeneratedChoices } from '../shared/generated-choices.js';
import type { ModelLimits } from '../shared/prepared-input.js';
import type { JobResults, OwnResult } from '../task.js';
import type { CompleteJob, CompleteResult } from './job.js';

export class CompleteResults implements JobResults<CompleteResult> {
  readonly #choices: GeneratedChoices;
  #beamTokens: number | undefined;

  constructor(job: CompleteJob, { shape, texts }: ModelLimits) {
    const { maxTokens, stop, prompts, logprobs, choices = 1, showSpecialTokens = false } = job;
    const options = {
      maxTokens,
      stop,
      endTokens: shape.tokens.end,
      ...plainTexts(texts, showSpecialTokens),
      logprobs: logprobs !== null,
    };
    this.#choices = new GeneratedChoices(prompts.length, choices, () => options);
  }

  token(input: number, token: GeneratedToken): CompletionDelta | undefined {
    return this.#choices.token(input, token);
  }

  beamTokens(tokens: number): void {
    this.#beamTokens = (this.#beamTokens ?? 0) + tokens;
  }

  finish(): OwnResult<CompleteResult> {
    const beamTokens = this.#beamTokens;
    return { ...this.#choices.finish(), ...(beamTokens !== undefined && { beamTokens }) };
  }
}
