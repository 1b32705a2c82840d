/** Schema parts that several tasks share. A schema's `id` is its name in the OpenAPI document. */

import { z } from 'zod';
import { MOST_ROUTING_K, ROUTING_MODES } from '../../config/engine-options.js';
import type { JobResult } from '../../protocol/engine-messages.js';
import type { ExpertCost } from '../../protocol/expert-cost.js';
import { listOf } from '../../text/list-schema.js';
import type { ChoiceFields } from './stored.js';
import type { StreamUsage } from './stream-options.js';
import { type TokenExperts, tokenExpertsAnswer } from './token-experts.js';

export const Include = listOf(z.enum(['experts']), 8)
  .optional()
  .meta({ description: 'Extra parts of the answer: `experts` is what it cost in experts' });

/** Of tasks that generate. */
export const GenerationInclude = listOf(z.enum(['experts', 'token_experts']), 8)
  .optional()
  .meta({
    description:
      'Extra parts of the answer: `experts` is what it cost in experts, `token_experts` which ones each token took',
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

/** What the last chunk of a stream reports; undefined if the request asked for nothing. */
export function closingParts<U extends z.infer<typeof Usage>>(
  { streamUsage = 'none', form }: { streamUsage?: StreamUsage; form: ShownExperts },
  result: ExpertsResult,
  usage: U,
): ({ usage?: U } & ReturnType<typeof expertParts>) | undefined {
  const reported = streamUsage !== 'none';
  if (!reported && !form.experts && !form.tokenExperts) return undefined;
  return { ...(reported && { usage }), ...expertParts(form, result) };
}

interface ShownExperts {
  experts: boolean;
  tokenExperts?: boolean;
}
type ExpertsResult = Pick<JobResult, 'experts'> & { choices: readonly ChoiceFields[] };

/** What a generation's answer says of experts. */
export function expertParts(
  form: ShownExperts,
  { experts, choices }: ExpertsResult,
): { experts?: z.infer<typeof Experts>; token_experts?: z.infer<typeof TokenExperts> } {
  return {
    ...(form.experts && { experts: expertsAnswer(experts) }),
    ...(form.tokenExperts && { token_experts: tokenExpertsAnswer(choices) }),
  };
}
