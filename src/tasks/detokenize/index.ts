/** Returns the texts of token ids. Its jobs never run the model. */
import { checkAnswerBytes } from '../../text/text-bytes.js';
import { heldBytes, inputTokens } from '../shared/token-estimates.js';
import type { Task } from '../task.js';
import {
  type DetokenizeForm,
  type DetokenizeJob,
  type DetokenizeResult,
  storedForm,
  storedJob,
  storedResult,
} from './job.js';
import { type DetokenizeBody, prepareDetokenize } from './request.js';
import { DetokenizeAnswer, DetokenizeRequest } from './schema.js';

export const detokenize: Task<DetokenizeBody, DetokenizeJob, DetokenizeResult, DetokenizeForm> = {
  kind: 'detokenize',
  route: {
    path: '/v1/detokenize',
    summary: 'Text of each list of token ids',
    answer: 'One text for each list',
  },
  schemas: { request: DetokenizeRequest, answer: DetokenizeAnswer },
  stored: { job: storedJob, result: storedResult, form: storedForm },
  prepare: prepareDetokenize,
  form: () => ({}),
  answers: ({ model }) => ({
    whole: ({ texts }) => ({
      object: 'detokenization',
      model,
      data: texts.map((text, index) => ({ index, text })),
    }),
  }),
  tokens: {
    input: ({ ids }) => inputTokens(ids),
    bytes: ({ ids }) => heldBytes(ids),
    cost: ({ ids }) => ({ known: ids.reduce((sum, each) => sum + each.length, 0), estimated: 0 }),
    texts: () => [],
    used: (_job, { promptTokens }) => promptTokens,
  },
  engine: {
    runs: 'detokenizer',
    lists: ({ ids, skipSpecialTokens }) => ids.map((each) => ({ ids: each, skipSpecial: skipSpecialTokens })),
    result: ({ ids }, texts) => {
      checkAnswerBytes(texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0));
      return {
        texts: [...texts],
        promptTokens: ids.reduce((sum, each) => sum + each.length, 0),
        completionTokens: 0,
      };
    },
  },
};
