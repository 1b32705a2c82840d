/** The request and the answer of /v1/tokenize. */
import { z } from 'zod';
import { listOf } from '../../text/list-schema.js';
import { MOST_INPUTS } from '../shared/limits.js';
import { Model } from '../shared/schema.js';

export const TokenizeRequest = z
  .strictObject({
    model: Model,
    input: z
      .union([z.string(), listOf(z.string(), MOST_INPUTS).min(1)], {
        error: `Expected a text, or a list of 1 to ${MOST_INPUTS} texts`,
      })
      .meta({ example: 'a fine film' }),
    add_special_tokens: z.boolean().default(true),
  })
  .meta({ id: 'TokenizeRequest' });

export const TokenizeAnswer = z
  .object({
    object: z.literal('tokenization'),
    model: z.string(),
    data: z.array(z.object({ index: z.int(), ids: z.array(z.int()), tokens: z.array(z.string()) })),
    usage: z.object({ prompt_tokens: z.int() }),
  })
  .meta({ id: 'Tokenization' });
