/** Parts that several requests and answers share. A schema's `id` names it in the OpenAPI document. */
import { z } from 'zod';
import type { ExpertCost } from '../../engine/messages.js';
import { TABLE_K } from '../../predictor/hash-table.js';

export const Include = z
  .array(z.enum(['experts']))
  .max(8)
  .optional()
  .meta({ description: 'Extra parts of the answer: `experts` is what it cost in experts' });

export const Routing = z.enum(['exact', 'predicted']).nullish().meta({
  description:
    'Who sends tokens to experts: the routers of the model, or the hash tables of the predictor. Default: as the server was started',
});
export const RoutingK = z.int().min(1).max(TABLE_K).nullish().meta({
  description: "With predicted routing: experts for each token. Default: the server's",
});

export const Model = z.string().optional().meta({ description: 'Name of the served model; may be left out' });

export const Experts = z
  .object({
    needed: z.int(),
    resident: z.int(),
    prefetched: z.int(),
    late: z.int(),
    on_demand: z.int(),
    loaded: z.int().meta({ description: 'Experts that were not resident when first needed' }),
    bytes_moved: z.int().meta({ description: 'An expert shared with another request counts for both' }),
    stall_ms: z.number(),
    predicted: z.int().meta({
      description: 'Pairs of MoE layer and token for which a hash table named experts',
    }),
    hits_top1: z.int().meta({ description: 'Those whose expert was the first that the table named' }),
    hits_top3: z.int().meta({ description: 'Those whose expert was among its first three' }),
    belady_bytes: z.int().meta({
      description: 'Bytes that perfect foresight with the same look-ahead would have moved for this request',
    }),
  })
  .meta({ id: 'Experts', description: 'What the answer cost in experts' });

export function expertsAnswer({ bytes, ...cost }: ExpertCost): z.infer<typeof Experts> {
  return { ...cost, bytes_moved: bytes };
}

export const ErrorAnswer = z
  .object({
    error: z.object({
      message: z.string(),
      type: z.string(),
      code: z.string(),
      param: z.string().nullable(),
      details: z.record(z.string(), z.number()).optional(),
    }),
  })
  .meta({ id: 'Error' });
