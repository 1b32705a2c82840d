/** Returns the texts of token ids. Its jobs never run the model. */
import { z } from 'zod';
import { SidaError } from '../../errors.js';
import type { ModelInfo } from '../../protocol/engine-messages.js';
import { checkAnswerBytes } from '../../text/text-bytes.js';
import { checkVocabulary, inputName, requireTokenizer } from '../shared/request-checks.js';
import { count, MOST_STORED, resultFields, texts } from '../shared/stored.js';
import { heldBytes, inputTokens } from '../shared/token-estimates.js';
import type { PreparedJob, Task } from '../task.js';
import { DetokenizeAnswer, DetokenizeRequest } from './schema.js';

const storedJob = z.object({
  kind: z.literal('detokenize'),
  ids: z.array(z.array(count)).max(MOST_STORED),
  skipSpecialTokens: z.boolean(),
});

const storedResult = z.object({ kind: z.literal('detokenize'), texts, ...resultFields });

/** Empty, because the answer always has the same form. */
const storedForm = z.object({});

type DetokenizeJob = z.infer<typeof storedJob>;
type DetokenizeResult = z.infer<typeof storedResult>;
type DetokenizeBody = z.infer<typeof DetokenizeRequest>;

export const detokenize: Task<DetokenizeBody, DetokenizeJob, DetokenizeResult, z.infer<typeof storedForm>> = {
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

/** The same number as for tokens of one answer of a tokenization. */
const MOST_TOKENS = 65_536;

function prepareDetokenize(request: DetokenizeBody, model: ModelInfo): PreparedJob<DetokenizeJob> {
  requireTokenizer(model, 'model');
  const list = isList(request.ids);
  const ids = isList(request.ids) ? request.ids : [request.ids];
  const tokens = ids.reduce((sum, each) => sum + each.length, 0);
  if (tokens > MOST_TOKENS) {
    throw new SidaError({
      code: 'cannot_run',
      message: `The request has ${tokens} token ids; the limit of one request is ${MOST_TOKENS}`,
      param: 'ids',
      details: { tokens, limit: MOST_TOKENS },
    });
  }
  for (const [index, each] of ids.entries())
    checkVocabulary(each, model.shape, inputName('ids', index, list));
  return { job: { kind: 'detokenize', ids, skipSpecialTokens: request.skip_special_tokens } };
}

function isList(ids: number[] | number[][]): ids is number[][] {
  return Array.isArray(ids[0]);
}
