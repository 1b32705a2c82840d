/** The answer of a completion, whole or as pieces of a stream, in OpenAI's shape. */
import type { CompletionDelta, ModelInfo, TokenLogprobs } from '../engine/messages.js';
import { SidaError } from '../errors.js';
import type { ResultOf } from './jobs.js';
import { expertsAnswer } from './schemas/common.js';
import type { CompletionAnswer, CompletionLogprobs } from './schemas/completions.js';

export interface AnswerOptions {
  returnTokenIds: boolean;
  includeExperts: boolean;
  /** Streams only: a last piece carries the usage. */
  includeUsage: boolean;
  /** Alternatives shown for each token; null shows no log-probabilities. */
  logprobs: number | null;
}

/** Builds every piece of one request's answer: they share an id, a time, and where each choice's text stands. */
export class CompletionAnswers {
  readonly #model: ModelInfo;
  readonly #options: AnswerOptions;
  readonly #id: string;
  readonly #created = Math.floor(Date.now() / 1000);
  /** Characters of each choice's tokens so far. */
  readonly #offsets = new Map<number, number>();

  constructor(model: ModelInfo, requestId: string, options: AnswerOptions) {
    this.#model = model;
    this.#options = options;
    this.#id = `cmpl-${requestId}`;
  }

  whole(result: ResultOf<'complete'>): CompletionAnswer {
    return {
      ...this.#envelope(result.choices),
      usage: usage(result),
      ...(this.#options.includeExperts && { experts: expertsAnswer(result.experts) }),
    };
  }

  piece(delta: CompletionDelta): CompletionAnswer {
    return this.#envelope([delta]);
  }

  /** What follows the last token of a stream; undefined when nothing was asked for. */
  closing(result: ResultOf<'complete'>): CompletionAnswer | undefined {
    const { includeUsage, includeExperts } = this.#options;
    if (!includeUsage && !includeExperts) return undefined;
    return {
      ...this.#envelope([]),
      ...(includeUsage && { usage: usage(result) }),
      ...(includeExperts && { experts: expertsAnswer(result.experts) }),
    };
  }

  #envelope(choices: CompletionDelta[]): CompletionAnswer {
    return {
      id: this.#id,
      object: 'text_completion',
      created: this.#created,
      model: this.#model.name,
      choices: choices.map((choice) => ({
        index: choice.index,
        text: choice.text,
        logprobs: this.#logprobs(choice),
        finish_reason: choice.finishReason,
        ...(this.#options.returnTokenIds && { token_ids: choice.tokenIds }),
      })),
    };
  }

  #logprobs({ index, logprobs }: CompletionDelta): CompletionLogprobs | null {
    if (this.#options.logprobs === null || logprobs === null) return null;
    const text_offset = logprobs.map((token) => {
      const offset = this.#offsets.get(index) ?? 0;
      this.#offsets.set(index, offset + textLength(token, offset === 0));
      return offset;
    });
    return {
      tokens: logprobs.map(({ token }) => token),
      token_logprobs: logprobs.map(({ logprob }) => finite(logprob)),
      top_logprobs:
        this.#options.logprobs === 0
          ? null
          : logprobs.map(({ top }) =>
              Object.fromEntries(top.map(({ token, logprob }) => [token, finite(logprob)])),
            ),
      text_offset,
    };
  }
}

/** Special tokens leave no text; the word mark of the first token is no space. */
function textLength({ token }: TokenLogprobs, first: boolean): number {
  if (/^<.+>$/.test(token)) return 0;
  return token.length - (first && token.startsWith('▁') ? 1 : 0);
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
