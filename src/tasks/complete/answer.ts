/** Builds the answer of a completion, whole or as stream chunks, in OpenAI's format. */
import { SidaError } from '../../errors.js';
import type { CompletionDelta } from '../../protocol/engine-messages.js';
import { expertsAnswer } from '../shared/schema.js';
import type { AnswerAbout, Answers } from '../task.js';
import type { CompleteForm, CompleteResult } from './job.js';
import type { CompletionAnswer, CompletionLogprobs } from './schema.js';

/** Builds all chunks of one answer, which share an id and a creation time. */
export class CompletionAnswers implements Answers<CompleteResult> {
  readonly #about: AnswerAbout<CompleteForm>;

  constructor(about: AnswerAbout<CompleteForm>) {
    this.#about = about;
  }

  whole(result: CompleteResult): CompletionAnswer {
    return {
      ...this.#envelope(result.choices),
      usage: usage(result),
      ...(this.#about.form.experts && { experts: expertsAnswer(result.experts) }),
    };
  }

  chunk(delta: CompletionDelta): CompletionAnswer {
    return this.#envelope([delta]);
  }

  closing(result: CompleteResult): CompletionAnswer | undefined {
    const { streamUsage = false, form } = this.#about;
    if (!streamUsage && !form.experts) return undefined;
    return {
      ...this.#envelope([]),
      ...(streamUsage && { usage: usage(result) }),
      ...(form.experts && { experts: expertsAnswer(result.experts) }),
    };
  }

  #envelope(choices: CompletionDelta[]): CompletionAnswer {
    const { model, id, createdMs, form } = this.#about;
    return {
      id: `cmpl-${id}`,
      object: 'text_completion',
      created: Math.floor(createdMs / 1000),
      model,
      choices: choices.map((choice) => ({
        index: choice.index,
        text: choice.text,
        logprobs: this.#logprobs(choice),
        finish_reason: choice.finishReason,
        ...(form.tokenIds && { token_ids: choice.tokenIds }),
      })),
    };
  }

  #logprobs({ logprobs }: CompletionDelta): CompletionLogprobs | null {
    const shown = this.#about.form.logprobs;
    if (shown === null || logprobs === null) return null;
    return {
      tokens: logprobs.map(({ token }) => token),
      token_logprobs: logprobs.map(({ logprob }) => finite(logprob)),
      top_logprobs:
        shown === 0
          ? null
          : logprobs.map(({ top }) =>
              Object.fromEntries(top.map(({ token, logprob }) => [token, finite(logprob)])),
            ),
      text_offset: logprobs.map(({ offset }) => offset),
    };
  }
}

function finite(logprob: number): number {
  if (Number.isFinite(logprob)) return logprob;
  throw new SidaError({
    code: 'nonfinite_output',
    message: 'The model gave a log-probability that is not finite',
  });
}

function usage({ promptTokens, completionTokens }: CompleteResult) {
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
  };
}
