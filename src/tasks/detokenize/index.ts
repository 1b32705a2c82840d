/** Returns the texts of token ids. Its jobs never run the model. */
import { requireTexts } from '../shared/prepared-input.js';
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
    runs: 'tokenizer',
    texts: () => [],
    result: ({ ids, skipSpecialTokens }, limits) => {
      const decoder = requireTexts(limits, 'ids');
      return {
        texts: ids.map((each) => decoder.decode(each, skipSpecialTokens)),
        promptTokens: ids.reduce((sum, each) => sum + each.length, 0),
        completionTokens: 0,
      };
    },
  },
};
