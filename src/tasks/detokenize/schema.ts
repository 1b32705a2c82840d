/** The request and the answer of /v1/detokenize. */
import { z } from 'zod';
import { listOf } from '../../text/list-schema.js';
import { MOST_INPUTS } from '../shared/limits.js';
import { Model, TokenIds } from '../shared/schema.js';

export const DetokenizeRequest = z
  .strictObject({
    model: Model,
    ids: z
      .union([TokenIds, listOf(TokenIds, MOST_INPUTS).min(1)], {
        error: `Expected a list of token ids, or a list of 1 to ${MOST_INPUTS} such lists`,
      })
      .meta({ example: [10, 20, 30] }),
    skip_special_tokens: z.boolean().default(true),
  })
  .meta({ id: 'DetokenizeRequest' });

export const DetokenizeAnswer = z
  .object({
    object: z.literal('detokenization'),
    model: z.string(),
    data: z.array(z.object({ index: z.int(), text: z.string() })),
  })
  .meta({ id: 'Detokenization' });
