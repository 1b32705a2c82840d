/** Embeds texts: the mean of the last hidden states, or of the encoder's. In the format of OpenAI's embeddings. */

import { checkedInput } from '../shared/prepared-input.js';
import { promptTexts, promptTokens } from '../shared/prompts.js';
import type { Task } from '../task.js';
import { embeddingAnswer } from './answer.js';
import {
  type EmbedForm,
  type EmbedJob,
  type EmbedResult,
  storedForm,
  storedJob,
  storedResult,
} from './job.js';
import { type EmbedBody, prepareEmbed } from './request.js';
import { EmbedResults } from './results.js';
import { EmbeddingAnswer, EmbeddingRequest, IGNORED } from './schema.js';
import { embedTokens } from './tokens.js';

export const embed: Task<EmbedBody, EmbedJob, EmbedResult, EmbedForm> = {
  kind: 'embed',
  route: {
    path: '/v1/embeddings',
    summary: 'Mean of the last hidden states of each input',
    answer: 'One embedding for each input',
    ignores: IGNORED,
  },
  jobType: 'embedding',
  schemas: { request: EmbeddingRequest, answer: EmbeddingAnswer },
  stored: { job: storedJob, result: storedResult, form: storedForm },
  prepare: prepareEmbed,
  form: ({ base64, explain = false }) => ({ base64, experts: explain }),
  answers: (about) => ({ whole: (result) => embeddingAnswer(about, result) }),
  tokens: embedTokens,
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
