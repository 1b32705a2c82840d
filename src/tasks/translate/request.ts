/** Converts a translation request into its job. The engine checks the languages, because it has the tokenizer. */
import type { z } from 'zod';
import type { ModelInfo } from '../../protocol/engine-messages.js';
import { beamsOf, requireEncoder } from '../shared/beams.js';
import {
  checkMaxTokens,
  checkText,
  inputName,
  type RequestLimits,
  requireDecoder,
  requireTokenizer,
} from '../shared/request-checks.js';
import { runFieldsOf } from '../shared/run-fields.js';
import type { PreparedJob } from '../task.js';
import type { TranslateJob } from './job.js';
import type { TranslateRequest } from './schema.js';

/** As in the generation settings of the NLLB models. */
const DEFAULT_MAX_TOKENS = 200;

export type TranslateBody = z.infer<typeof TranslateRequest>;

export function prepareTranslate(
  request: TranslateBody,
  model: ModelInfo,
  limits: RequestLimits,
): PreparedJob<TranslateJob> {
  const { input, source, target } = request;
  requireDecoder(model.shape);
  requireTokenizer(model, 'model');
  requireEncoder(model.shape, 'model', 'Translation');
  const search = beamsOf(request, model.shape);
  const maxTokens = request.max_tokens ?? DEFAULT_MAX_TOKENS;
  checkMaxTokens(maxTokens, model);
  const inputs = Array.isArray(input) ? input : [input];
  for (const [index, text] of inputs.entries()) {
    checkText(text, limits, inputName('input', index, Array.isArray(input)));
  }
  const job: TranslateJob = {
    kind: 'translate',
    inputs,
    source,
    target,
    maxTokens,
    ...(search && { search }),
    showTokenIds: request.return_token_ids ?? false,
    ...runFieldsOf(request),
  };
  return { job };
}
