/** Embeds texts: the mean of the last hidden states, or of the encoder's. In the format of OpenAI's embeddings. */
import { checkedInput } from '../shared/prepared-input.js';
import { promptIds, promptStrings, promptTexts, promptTokens } from '../shared/prompts.js';
import { costParts } from '../shared/schema.js';
import { heldBytes, inputTokens, reservedTokens } from '../shared/token-estimates.js';
import type { AnswerAbout, JobResults, OwnResult, Task } from '../task.js';
import {
  type EmbedForm,
  type EmbedJob,
  type EmbedResult,
  ofLengthOne,
  storedForm,
  storedJob,
  storedResult,
  textOf,
} from './job.js';
import { type EmbedBody, prepareEmbed } from './request.js';
import { EmbeddingAnswer, EmbeddingRequest, IGNORED } from './schema.js';

export const embed: Task<EmbedBody, EmbedJob, EmbedResult, EmbedForm> = {
  kind: 'embed',
  route: {
    path: '/v1/embeddings',
    summary: 'Mean of the last hidden states of each input, scaled to length 1',
    answer: 'One embedding for each input',
    ignores: IGNORED,
  },
  jobType: 'embedding',
  schemas: { request: EmbeddingRequest, answer: EmbeddingAnswer },
  stored: { job: storedJob, result: storedResult, form: storedForm },
  prepare: prepareEmbed,
  form: ({ base64, explain = false }) => ({ base64, experts: explain }),
  answers: (about) => ({ whole: (result) => embeddingAnswer(about, result) }),
  tokens: {
    input: ({ inputs }) => inputTokens(inputs),
    bytes: ({ inputs }) => heldBytes(inputs),
    cost: ({ inputs }) => ({ known: promptIds(inputs), estimated: reservedTokens(promptStrings(inputs)) }),
    texts: ({ inputs }) => promptStrings(inputs),
    used: (_job, { promptTokens }) => promptTokens,
  },
  engine: {
    runs: 'model',
    texts: ({ inputs }, limits) => promptTexts(inputs, 'input', limits),
    inputs: ({ inputs }, limits, ids) =>
      promptTokens(inputs, ids).map((tokens, index) =>
        checkedInput({ tokens, work: { kind: 'embed' } }, 'input', `Input ${index}`, limits),
      ),
    results: ({ inputs }) => new EmbedResults(inputs.length),
  },
};

class EmbedResults implements JobResults<EmbedResult> {
  readonly #embeddings: string[];

  constructor(inputs: number) {
    this.#embeddings = Array.from({ length: inputs }, () => '');
  }

  embedding(input: number, values: readonly number[]): void {
    this.#embeddings[input] = textOf(values);
  }

  finish(): OwnResult<EmbedResult> {
    return { embeddings: this.#embeddings, completionTokens: 0 };
  }
}

function embeddingAnswer(
  { model, form }: AnswerAbout<EmbedForm>,
  { embeddings, promptTokens, ...result }: EmbedResult,
): typeof EmbeddingAnswer._output {
  return {
    object: 'list',
    model,
    data: embeddings.map((text, index) => {
      const values = ofLengthOne(text);
      return { object: 'embedding', index, embedding: form.base64 ? textOf(values) : values };
    }),
    usage: { prompt_tokens: promptTokens, total_tokens: promptTokens },
    ...costParts(form, result),
  };
}
