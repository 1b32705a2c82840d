/** Builds the answer of a completion, whole or as stream chunks, in OpenAI's format. */
import type { CompletionDelta, TokenLogprobs } from '../../protocol/engine-messages.js';
import { finiteLogprob } from '../shared/logprobs.js';
import { closingParts, expertParts, usageAnswer } from '../shared/schema.js';
import { UsageSoFar } from '../shared/stream-options.js';
import type { AnswerAbout, Answers } from '../task.js';
import type { CompleteForm, CompleteResult } from './job.js';
import type { CompletionAnswer, CompletionLogprobs } from './schema.js';

/** Builds all chunks of one answer, which share an id and a creation time. */
export class CompletionAnswers implements Answers<CompleteResult> {
  readonly #about: AnswerAbout<CompleteForm>;

  readonly #used: UsageSoFar<NonNullable<CompletionAnswer['usage']>>;

  constructor(about: AnswerAbout<CompleteForm>) {
    this.#about = about;
    this.#used = new UsageSoFar(about, usageAnswer);
  }

  whole(result: CompleteResult): CompletionAnswer {
    return {
      ...this.#envelope(result.choices),
      usage: usageAnswer(result),
      ...expertParts(this.#about.form, result),
    };
  }

  chunks(delta: CompletionDelta): CompletionAnswer[] {
    this.#used.add(delta);
    return [{ ...this.#envelope([delta]), ...this.#used.field }];
  }

  closing(result: CompleteResult): CompletionAnswer[] {
    const cost = closingParts(this.#about, result, usageAnswer(result));
    return cost === undefined ? [] : [{ ...this.#envelope([]), ...cost }];
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
      token_logprobs: logprobs.map(({ logprob }) => (logprob === null ? null : finiteLogprob(logprob))),
      top_logprobs:
        shown === 0 ? null : logprobs.map(({ logprob, top }) => (logprob === null ? null : byText(top))),
      text_offset: logprobs.map(({ offset }) => offset),
    };
  }
}

/** Of several tokens with the same text, the most likely one counts. It comes first. */
function byText(top: TokenLogprobs['top']): Record<string, number> {
  const found = new Map<string, number>();
  for (const { token, logprob } of top) if (!found.has(token)) found.set(token, finiteLogprob(logprob));
  return Object.fromEntries(found);
}
