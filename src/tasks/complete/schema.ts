/** The request and the answer of /v1/completions. */
import { z } from 'zod';
import { BEAM_FIELDS } from '../shared/beams.js';
import { ResponseFormat } from '../shared/conversation-schema.js';
import { MOST_INPUTS } from '../shared/limits.js';
import { ADJUSTMENT_FIELDS } from '../shared/logit-adjustments.js';
import { neutral, SAMPLING_FIELDS, STOP } from '../shared/sampling.js';
import {
  Experts,
  GenerationInclude,
  ignoredFields,
  MaxSeconds,
  Model,
  promptsField,
  Quote,
  Routing,
  RoutingK,
  Usage,
  Warnings,
} from '../shared/schema.js';
import { StreamOptions } from '../shared/stream-options.js';
import { TokenExperts } from '../shared/token-experts.js';

const MOST_LOGPROBS = 5;

/** Fields of OpenAI's API that have no effect here. */
export const IGNORED = ['user'] as const;

export const CompletionRequest = z
  .strictObject({
    model: Model,
    prompt: promptsField(MOST_INPUTS).meta({ example: 'The film was <extra_id_0>.' }),
    max_tokens: z.int().min(0).max(1_000_000).nullish().meta({
      description: 'Most tokens of a choice; 0, which needs `echo`, only scores the prompt. Default 16',
    }),
    ...SAMPLING_FIELDS,
    ...ADJUSTMENT_FIELDS,
    ...BEAM_FIELDS,
    forced_bos_token_id: z.int().min(0).nullish().meta({
      description: 'Token that every text begins with; only for encoder-decoder models',
    }),
    stop: STOP,
    response_format: ResponseFormat.nullish(),
    logprobs: z.int().min(0).max(MOST_LOGPROBS).nullish(),
    stream: z.boolean().nullish(),
    stream_options: StreamOptions,
    return_token_ids: z.boolean().nullish(),
    skip_special_tokens: z.boolean().nullish().meta({
      description: 'Whether the text leaves out special tokens such as `</s>`. Default true',
    }),
    routing: Routing,
    routing_k: RoutingK,
    max_seconds: MaxSeconds,
    include: GenerationInclude,
    echo: z.boolean().nullish().meta({
      description:
        'Whether each text begins with its prompt. `logprobs` then also has the tokens of the prompt. Only for decoder-only models',
    }),
    best_of: z
      .int()
      .min(1)
      .nullish()
      .meta({ description: 'Accepted only as large as `n`: no choice is made and left out' }),
    suffix: neutral(null),
    ...ignoredFields(IGNORED),
  })
  .meta({ id: 'CompletionRequest' });

const Logprobs = z.object({
  tokens: z.array(z.string()),
  token_logprobs: z
    .array(z.number().nullable())
    .meta({ description: 'Null for the first token of a prompt' }),
  top_logprobs: z.array(z.record(z.string(), z.number()).nullable()).nullable(),
  text_offset: z.array(z.int()),
});

export const CompletionAnswer = z
  .object({
    id: z.string(),
    object: z.literal('text_completion'),
    created: z.int(),
    model: z.string(),
    choices: z.array(
      z.object({
        index: z.int(),
        text: z.string(),
        logprobs: Logprobs.nullable(),
        finish_reason: z.enum(['stop', 'length']).nullable(),
        token_ids: z.array(z.int()).optional(),
      }),
    ),
    usage: Usage.nullable().optional(),
    experts: Experts.optional(),
    quote: Quote.optional(),
    token_experts: TokenExperts.optional(),
    warnings: Warnings,
  })
  .meta({ id: 'Completion', description: 'Also the shape of each chunk of a stream' });

export type CompletionAnswer = z.infer<typeof CompletionAnswer>;
export type CompletionLogprobs = z.infer<typeof Logprobs>;
