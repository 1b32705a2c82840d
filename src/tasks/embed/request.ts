/** Converts an embedding request into its job. */
import type { z } from 'zod';
import { SidaError } from '../../errors.js';
import type { ModelInfo } from '../../protocol/engine-messages.js';
import { checkedPrompts, type RequestLimits } from '../shared/request-checks.js';
import { runFieldsOf } from '../shared/run-fields.js';
import type { PreparedJob } from '../task.js';
import type { EmbedJob } from './job.js';
import type { EmbeddingRequest } from './schema.js';

export type EmbedBody = z.infer<typeof EmbeddingRequest>;

/** More numbers would hold the processes that pass them on, and with them other clients. */
const MOST_NUMBERS = 262_144;

export function prepareEmbed(
  request: EmbedBody,
  model: ModelInfo,
  limits: RequestLimits,
): PreparedJob<EmbedJob> {
  const inputs = checkedPrompts(request.input, 'input', model, limits);
  const { width } = model.shape;
  const { dimensions } = request;
  if (dimensions != null && dimensions !== width) {
    const message = `Expected "dimensions" to be ${width}, the width of this model, but got ${dimensions}`;
    throw new SidaError({ code: 'invalid_request', message, param: 'dimensions' });
  }
  const numbers = inputs.length * width;
  if (numbers > MOST_NUMBERS) {
    throw new SidaError({
      code: 'cannot_run',
      message: `${inputs.length} embeddings of ${width} numbers are ${numbers} numbers; the limit of one answer is ${MOST_NUMBERS}`,
      param: 'input',
      details: { numbers, limit: MOST_NUMBERS },
    });
  }
  return {
    job: {
      kind: 'embed',
      inputs,
      base64: request.encoding_format === 'base64',
      ...runFieldsOf(request),
    },
  };
}
