/** The request and the answer of /v1/completions. */
import { z } from 'zod';
import { BEAM_FIELDS } from '../shared/beams.js';
import { MOST_INPUTS } from '../shared/limits.js';
import { Experts, Include, Model, Routing, RoutingK } from '../shared/schema.js';

const MOST_STOPS = 4;
const STOP_BYTES = 1024;
const MOST_LOGPROBS = 5;
/** Most choices of one prompt. */
const MOST_CHOICES = 16;
/** Largest accepted `top_k`. */
const MOST_TOP_K = 1_000_000;

/** Checks all ids in one loop. A schema per id would delay other requests: half a million ids fit in a body. */
const TokenIds = z
  .custom<number[]>((value) => Array.isArray(value) && typeof value[0] === 'number')
  .check(({ value, issues }) => {
    const at = value.findIndex((id) => !Number.isSafeInteger(id) || id < 0);
    if (at < 0) return;
    const message = 'Expected a token id, a whole number from 0';
    issues.push({ code: 'custom', message, path: [at], input: value[at], continue: true });
  })
  .meta({ type: 'array', items: { type: 'integer', minimum: 0 }, minItems: 1 });

const Stop = z
  .string()
  .min(1)
  .refine((stop) => Buffer.byteLength(stop) <= STOP_BYTES, {
    error: `A stop text may have ${STOP_BYTES} bytes`,
  });

/** A field of OpenAI's API that is accepted only with values that have no effect. */
function neutral<const T extends readonly (number | boolean | null)[]>(...values: T) {
  const [supported] = values.filter((value) => value !== null);
  return z
    .literal(values, {
      error:
        supported === undefined
          ? 'This server does not support it; leave it out'
          : `This server supports only ${supported}`,
    })
    .optional()
    .meta({ description: 'Accepted for compatibility' });
}

/** Sampling options. Without a temperature, or with 0, only `n` has an effect. */
const SAMPLING = {
  temperature: z.number().min(0).max(2).nullish().meta({
    description: 'What logits are divided by before a token is drawn; 0: the likeliest is taken. Default 0',
  }),
  top_p: z
    .number()
    .gt(0)
    .max(1)
    .nullish()
    .meta({ description: 'Draws from the likeliest tokens that together have this probability. Default 1' }),
  top_k: z
    .int()
    .min(0)
    .max(MOST_TOP_K)
    .nullish()
    .meta({ description: 'Draws from so many likeliest tokens. Default 0: all' }),
  min_p: z.number().min(0).max(1).nullish().meta({
    description: "Draws from tokens with at least this share of the likeliest one's probability. Default 0",
  }),
  seed: z.int().nullish().meta({
    description:
      'The same seed gives the same text at every budget and load. Default: drawn for each request',
  }),
  n: z.int().min(1).max(MOST_CHOICES).nullish().meta({
    description: 'Choices for each prompt; with beams, the best texts, best first. Default 1',
  }),
};

export const CompletionRequest = z
  .strictObject({
    model: Model,
    prompt: z
      .union(
        [
          z.string(),
          TokenIds,
          z
            .array(z.union([z.string(), TokenIds]))
            .min(1)
            .max(MOST_INPUTS),
        ],
        { error: `Expected a text, a list of token ids, or a list of 1 to ${MOST_INPUTS} of these` },
      )
      .meta({ example: 'The film was <extra_id_0>.' }),
    max_tokens: z.int().min(1).max(1_000_000).nullish(),
    ...SAMPLING,
    ...BEAM_FIELDS,
    forced_bos_token_id: z.int().min(0).nullish().meta({
      description: 'Token that every text begins with; only for encoder-decoder models',
    }),
    stop: z
      .union([Stop, z.array(Stop).max(MOST_STOPS)], {
        error: `Expected a text, or a list of up to ${MOST_STOPS} texts, each of 1 to ${STOP_BYTES} bytes`,
      })
      .nullish(),
    logprobs: z.int().min(0).max(MOST_LOGPROBS).nullish(),
    stream: z.boolean().nullish(),
    stream_options: z.strictObject({ include_usage: z.boolean().optional() }).nullish(),
    return_token_ids: z.boolean().nullish(),
    skip_special_tokens: z.boolean().nullish().meta({
      description: 'Whether the text leaves out special tokens such as `</s>`. Default true',
    }),
    routing: Routing,
    routing_k: RoutingK,
    include: Include,
    best_of: neutral(1, null),
    echo: neutral(false, null),
    presence_penalty: neutral(0, null),
    frequency_penalty: neutral(0, null),
    suffix: neutral(null),
    logit_bias: neutral(null),
    user: z.string().max(256).nullish().meta({ description: 'Accepted and not used' }),
  })
  .meta({ id: 'CompletionRequest' });

const Logprobs = z.object({
  tokens: z.array(z.string()),
  token_logprobs: z.array(z.number()),
  top_logprobs: z.array(z.record(z.string(), z.number())).nullable(),
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
    usage: z.object({ prompt_tokens: z.int(), completion_tokens: z.int(), total_tokens: z.int() }).optional(),
    experts: Experts.optional(),
  })
  .meta({ id: 'Completion', description: 'Also the shape of each chunk of a stream' });

export type CompletionAnswer = z.infer<typeof CompletionAnswer>;
export type CompletionLogprobs = z.infer<typeof Logprobs>;
