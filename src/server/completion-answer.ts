/** The answer of a completion, whole or as pieces of a stream, in OpenAI's shape. */

import { SidaError } from '../errors.js';
import type { CompletionDelta } from '../protocol/engine-messages.js';
import type { AnswerForm } from '../queue/job-queue.js';
import type { ResultOf } from './jobs.js';
import { expertsAnswer } from './schemas/common.js';
import type { CompletionAnswer, CompletionLogprobs } from './schemas/completions.js';

export interface CompletionAbout {
  /** Its name. */
  model: string;
  /** Of the request or the job. */
  id: string;
  createdMs: number;
  form: AnswerForm;
  /** Streams only: a last piece carries the usage. */
  includeUsage?: boolean;
}

/** Builds every piece of one answer: they share an id and a time. */
export class CompletionAnswers {
  readonly #about: CompletionAbout;

  constructor(about: CompletionAbout) {
    this.#about = about;
  }

  whole(result: ResultOf<'complete'>): CompletionAnswer {
    return {
      ...this.#envelope(result.choices),
      usage: usage(result),
      ...(this.#about.form.experts && { experts: expertsAnswer(result.experts) }),
    };
  }

  piece(delta: CompletionDelta): CompletionAnswer {
    return this.#envelope([delta]);
  }

  /** What follows the last token of a stream; undefined when nothing was asked for. */
  closing(result: ResultOf<'complete'>): CompletionAnswer | undefined {
    const { includeUsage = false, form } = this.#about;
    if (!includeUsage && !form.experts) return undefined;
    return {
      ...this.#envelope([]),
      ...(includeUsage && { usage: usage(result) }),
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

function usage({ promptTokens, completionTokens }: ResultOf<'complete'>) {
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
  };
}
