/** Returns the tokens of texts. Its jobs never run the model. */
import { heldBytes, inputTokens, reservedTokens } from '../shared/token-estimates.js';
import type { Task } from '../task.js';
import { tokenizeAnswer } from './answer.js';
import {
  storedForm,
  storedJob,
  storedResult,
  type TokenizeForm,
  type TokenizeJob,
  type TokenizeResult,
} from './job.js';
import { prepareTokenize, type TokenizeBody } from './request.js';
import { tokenizeResult, tokenizeTexts } from './results.js';
import { TokenizeAnswer, TokenizeRequest } from './schema.js';

function textsOf({ inputs, conversation }: TokenizeJob): string[] {
  return conversation === undefined ? inputs : [conversation];
}

export const tokenize: Task<TokenizeBody, TokenizeJob, TokenizeResult, TokenizeForm> = {
  kind: 'tokenize',
  route: {
    path: '/v1/tokenize',
    summary: 'Token ids and tokens of each input',
    answer: 'One entry for each input',
  },
  schemas: { request: TokenizeRequest, answer: TokenizeAnswer },
  stored: { job: storedJob, result: storedResult, form: storedForm },
  prepare: prepareTokenize,
  form: () => ({}),
  answers: (about) => ({ whole: (result) => tokenizeAnswer(about, result) }),
  tokens: {
    input: (job) => inputTokens(textsOf(job)),
    bytes: (job) => heldBytes(textsOf(job)),
    cost: (job) => ({ known: 0, estimated: reservedTokens(textsOf(job)) }),
    texts: textsOf,
    used: (_job, { promptTokens, completionTokens }) => promptTokens + completionTokens,
  },
  engine: { runs: 'tokenizer', texts: tokenizeTexts, result: tokenizeResult },
};
