/** Schema parts that several tasks share. A schema's `id` is its name in the OpenAPI document. */

import { z } from 'zod';
import { MOST_ROUTING_K, ROUTING_MODES } from '../../config/engine-options.js';
import type { JobResult } from '../../protocol/engine-messages.js';
import type { ExpertCost } from '../../protocol/expert-cost.js';
import type { Quantiles as QuantilesOf, Quote as QuoteOf } from '../../protocol/quote.js';
import { listOf } from '../../text/list-schema.js';
import type { ChoiceFields } from './stored.js';
import type { StreamUsage } from './stream-options.js';
import { type TokenExperts, tokenExpertsAnswer } from './token-experts.js';

export const Include = listOf(z.enum(['experts', 'quote']), 8)
  .optional()
  .meta({
    description:
      'Extra parts of the answer: `experts` is what it cost in experts, `quote` what that was expected to be',
  });

/** Of tasks that generate. */
export const GenerationInclude = listOf(z.enum(['experts', 'token_experts', 'quote']), 8)
  .optional()
  .meta({
    description:
      'Extra parts of the answer: `experts` is what it cost in experts, `token_experts` which ones each token took, `quote` what it was expected to cost',
  });

export const MaxSeconds = z.number().gt(0).nullish().meta({
  description: 'Refused before it runs if it is likely to take longer: see `/v1/quote`',
});

export const Routing = z.enum(ROUTING_MODES).nullish().meta({
  description:
    'Who sends tokens to experts: the routers of the model, or the hash tables of the predictor. Default: as the server was started',
});
export const RoutingK = z.int().min(1).max(MOST_ROUTING_K).nullish().meta({
  description: "With predicted routing: experts for each token. Default: the server's",
});

export const Model = z.string().nullish().meta({ description: 'Name of the served model; may be left out' });

/** Of a whole answer; a stream has them only in the headers x-ignored-fields and x-warnings. */
export const Warnings = z
  .array(z.string())
  .optional()
  .meta({ description: 'What of the request had no effect, or was changed' });

/** Fields that are accepted and have no effect. */
export function ignoredFields<const Name extends string>(names: readonly Name[]) {
  const field = z.unknown().optional().meta({ description: 'Accepted and not used' });
  return Object.fromEntries(names.map((name) => [name, field])) as Record<Name, typeof field>;
}

/** Of a prompt's tokens, those that the prefix cache had. */
export const CachedTokens = z.object({ cached_tokens: z.int() });

/** Of an answer's tokens, those of its reasoning, with the tags before it. */
export const ReasoningTokens = z.object({ reasoning_tokens: z.int() });

/** Tokens of an answer. */
export const Usage = z.object({
  prompt_tokens: z.int(),
  completion_tokens: z.int(),
  total_tokens: z.int(),
  prompt_tokens_details: CachedTokens,
});

export function usageAnswer({
  promptTokens,
  cachedTokens = 0,
  completionTokens,
}: Pick<JobResult, 'promptTokens' | 'cachedTokens' | 'completionTokens'>): z.infer<typeof Usage> {
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    prompt_tokens_details: { cached_tokens: cachedTokens },
  };
}

/** Checks all ids in one loop. A schema per id would delay other requests: half a million ids fit in a body. */
export const TokenIds = z
  .custom<number[]>((value) => Array.isArray(value) && typeof value[0] === 'number')
  .check(({ value, issues }) => {
    const at = value.findIndex((id) => !Number.isSafeInteger(id) || id < 0);
    if (at < 0) return;
    const message = 'Expected a token id, a whole number from 0';
    issues.push({ code: 'custom', message, path: [at], input: value[at], continue: true });
  })
  .meta({ type: 'array', items: { type: 'integer', minimum: 0 }, minItems: 1 });

/** A text, a list of token ids, or a list of up to `most` of these. */
export function promptsField(most: number) {
  return z.union([z.string(), TokenIds, listOf(z.union([z.string(), TokenIds]), most).min(1)], {
    error: `Expected a text, a list of token ids, or a list of 1 to ${most} of these`,
  });
}

/** An answer has one of the two pairs. The number of experts that the routers choose per token decides which. */
const HITS = {
  hits_top1: z.int().optional().meta({
    description: 'Of models that choose one expert: routings whose expert was the first that the table named',
  }),
  hits_top3: z.int().optional().meta({ description: 'Those whose expert was among its first three' }),
  hits_top_k: z.int().optional().meta({
    description:
      'Of models that choose k > 1 experts: routings whose expert was among the first k that the table named',
  }),
  hits_top_2k: z.int().optional().meta({ description: 'Those whose expert was among its first 2k' }),
};

export const Experts = z
  .object({
    needed: z.int(),
    resident: z.int(),
    prefetched: z.int(),
    late: z.int(),
    on_demand: z.int(),
    peer: z.int().meta({ description: 'Experts that an expert peer computed' }),
    cpu: z.int().meta({ description: 'Experts that the CPU of a server with a GPU computed' }),
    loaded: z.int().meta({ description: 'Experts that were not resident when first needed' }),
    bytes_moved: z.int().meta({ description: 'An expert shared with another request counts for both' }),
    stall_ms: z
      .number()
      .meta({ description: 'Milliseconds that the passes waited for experts, to 3 decimals' }),
    predicted: z.int().meta({
      description:
        'Routings, a token to one of its experts in a MoE layer, for which a hash table named experts',
    }),
    ...HITS,
  })
  .meta({ id: 'Experts', description: 'What the answer cost in experts' });

export function expertsAnswer({ bytes, ...cost }: ExpertCost): z.infer<typeof Experts> {
  return { ...cost, stall_ms: Math.round(cost.stall_ms * 1000) / 1000, bytes_moved: bytes };
}

const Quantiles = z.object({
  p50: z.number().meta({ description: 'As likely less as more' }),
  p90: z.number().meta({ description: 'More in one of ten answers' }),
});

export const Quote = z
  .object({
    prompt_tokens: z.int(),
    max_tokens: z.int().meta({ description: 'Of all choices. p90 counts on all, p50 on the usual share' }),
    experts: Quantiles.meta({ description: 'What `experts.needed` will be' }),
    bytes_moved: Quantiles.meta({ description: 'What `experts.bytes_moved` will be' }),
    first_token_seconds: Quantiles,
    seconds: Quantiles,
    queue_seconds: z.number().meta({ description: 'Of the seconds, those before its first pass' }),
    jobs_ahead: z.int().meta({ description: 'That wait or run' }),
    measured_answers: z.int().meta({
      description: 'That the seconds rest on. 0: on the shape of the model; up to 64 are remembered',
    }),
  })
  .meta({ id: 'Quote', description: 'What a request is expected to cost' });

export function quoteAnswer(quote: QuoteOf): z.infer<typeof Quote> {
  const rounded = ({ p50, p90 }: QuantilesOf, digits: number) => ({
    p50: Number(p50.toFixed(digits)),
    p90: Number(p90.toFixed(digits)),
  });
  return {
    prompt_tokens: quote.promptTokens,
    max_tokens: quote.maxTokens,
    experts: rounded(quote.experts, 0),
    bytes_moved: rounded(quote.bytes, 0),
    first_token_seconds: rounded(quote.firstSeconds, 6),
    seconds: rounded(quote.seconds, 6),
    queue_seconds: Number(quote.queueSeconds.toFixed(6)),
    jobs_ahead: quote.jobsAhead,
    measured_answers: quote.measured,
  };
}

/** What an answer says of its cost and of what that was expected to be. */
export function costParts(
  form: { experts: boolean },
  { experts, quote }: Pick<JobResult, 'experts' | 'quote'>,
): { experts?: z.infer<typeof Experts>; quote?: z.infer<typeof Quote> } {
  return {
    ...(form.experts && { experts: expertsAnswer(experts) }),
    ...(quote && { quote: quoteAnswer(quote) }),
  };
}

/** What the last chunk of a stream reports; undefined if the request asked for nothing. */
export function closingParts<U extends z.infer<typeof Usage>>(
  { streamUsage = 'none', form }: { streamUsage?: StreamUsage; form: ShownExperts },
  result: ExpertsResult,
  usage: U,
): ({ usage?: U } & ReturnType<typeof expertParts>) | undefined {
  const reported = streamUsage !== 'none';
  if (!reported && !form.experts && !form.tokenExperts && !result.quote) return undefined;
  return { ...(reported && { usage }), ...expertParts(form, result) };
}

interface ShownExperts {
  experts: boolean;
  tokenExperts?: boolean;
}
type ExpertsResult = Pick<JobResult, 'experts' | 'quote'> & { choices: readonly ChoiceFields[] };

/** What a generation's answer says of experts. */
export function expertParts(
  form: ShownExperts,
  { choices, ...result }: ExpertsResult,
): ReturnType<typeof costParts> & { token_experts?: z.infer<typeof TokenExperts> } {
  return {
    ...costParts(form, result),
    ...(form.tokenExperts && { token_experts: tokenExpertsAnswer(choices) }),
  };
}
