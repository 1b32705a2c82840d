/** The request and the answer of /v1/embeddings. */
import { z } from 'zod';
import {
  Experts,
  Include,
  ignoredFields,
  MaxSeconds,
  Model,
  promptsField,
  Quote,
  Routing,
  RoutingK,
  Warnings,
} from '../shared/schema.js';

/** As many as OpenAI allows. */
const MOST_INPUTS = 2048;

/** Fields of OpenAI's API that have no effect here. */
export const IGNORED = ['user'] as const;

export const EmbeddingRequest = z
  .strictObject({
    model: Model,
    input: promptsField(MOST_INPUTS).meta({ example: 'a fine film' }),
    encoding_format: z.enum(['float', 'base64']).nullish().meta({
      description: 'base64: the float32 values in little-endian order. Default float',
    }),
    dimensions: z.int().min(1).nullish().meta({ description: "Only the model's own width" }),
    routing: Routing,
    routing_k: RoutingK,
    max_seconds: MaxSeconds,
    include: Include,
    ...ignoredFields(IGNORED),
  })
  .meta({ id: 'EmbeddingRequest' });

export const EmbeddingAnswer = z
  .object({
    object: z.literal('list'),
    model: z.string(),
    data: z.array(
      z.object({
        object: z.literal('embedding'),
        index: z.int(),
        embedding: z.union([z.array(z.number()), z.string()]),
      }),
    ),
    usage: z.object({ prompt_tokens: z.int(), total_tokens: z.int() }),
    experts: Experts.optional(),
    quote: Quote.optional(),
    warnings: Warnings,
  })
  .meta({ id: 'Embeddings' });
