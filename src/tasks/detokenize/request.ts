/** Converts a detokenization request into its job. */
import type { z } from 'zod';
import { SidaError } from '../../errors.js';
import type { ModelInfo } from '../../protocol/engine-messages.js';
import { checkVocabulary, inputName, requireTokenizer } from '../shared/request-checks.js';
import type { PreparedJob } from '../task.js';
import type { DetokenizeJob } from './job.js';
import type { DetokenizeRequest } from './schema.js';

export type DetokenizeBody = z.infer<typeof DetokenizeRequest>;

/** The same number as for tokens of one answer of a tokenization. */
const MOST_TOKENS = 65_536;

export function prepareDetokenize(request: DetokenizeBody, model: ModelInfo): PreparedJob<DetokenizeJob> {
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
