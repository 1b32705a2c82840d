/** Converts a tokenization request into its job. */
import type { z } from 'zod';
import type { ModelInfo } from '../../protocol/engine-messages.js';
import { checkText, inputName, type RequestLimits, requireTokenizer } from '../shared/request-checks.js';
import type { PreparedJob } from '../task.js';
import type { TokenizeJob } from './job.js';
import type { TokenizeRequest } from './schema.js';

export type TokenizeBody = z.infer<typeof TokenizeRequest>;

export function prepareTokenize(
  request: TokenizeBody,
  model: ModelInfo,
  limits: RequestLimits,
): PreparedJob<TokenizeJob> {
  requireTokenizer(model, 'model');
  const list = Array.isArray(request.input);
  const inputs = Array.isArray(request.input) ? request.input : [request.input];
  inputs.forEach((input, index) => {
    checkText(input, limits, inputName('input', index, list));
  });
  return { job: { kind: 'tokenize', inputs, addSpecialTokens: request.add_special_tokens } };
}
