/** The request and the answer of /v1/translate. */
import { z } from 'zod';
import { listOf } from '../../text/list-schema.js';
import { BEAM_FIELDS } from '../shared/beams.js';
import { MOST_INPUTS } from '../shared/limits.js';
import { Experts, Include, MaxSeconds, Model, Quote, Routing, RoutingK, Usage } from '../shared/schema.js';

/** Longest language code to look up. */
const CODE_LETTERS = 32;

const Language = z.string().min(1).max(CODE_LETTERS);

export const TranslateRequest = z
  .strictObject({
    model: Model,
    input: z
      .union([z.string(), listOf(z.string(), MOST_INPUTS).min(1)], {
        error: `Expected a text, or a list of 1 to ${MOST_INPUTS} texts`,
      })
      .meta({ example: 'The film was good.' }),
    source: Language.meta({
      description: "Language of the inputs, as the model's tokenizer names it",
      example: 'eng_Latn',
    }),
    target: Language.meta({ description: 'Language to translate into', example: 'deu_Latn' }),
    max_tokens: z.int().min(1).max(1_000_000).nullish().meta({
      description: 'Most tokens of a translation, with its language code and its end token. Default 200',
    }),
    ...BEAM_FIELDS,
    return_token_ids: z.boolean().nullish(),
    routing: Routing,
    routing_k: RoutingK,
    max_seconds: MaxSeconds,
    include: Include,
  })
  .meta({ id: 'TranslateRequest' });

export const TranslateAnswer = z
  .object({
    object: z.literal('translation'),
    model: z.string(),
    data: z.array(
      z.object({
        index: z.int(),
        text: z.string(),
        finish_reason: z.enum(['stop', 'length']),
        token_ids: z.array(z.int()).optional(),
      }),
    ),
    usage: Usage,
    experts: Experts.optional(),
    quote: Quote.optional(),
  })
  .meta({ id: 'Translation' });
