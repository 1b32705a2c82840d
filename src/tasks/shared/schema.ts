/** Schema parts that several tasks share. A schema's `id` is its name in the OpenAPI document. */
import { z } from 'zod';
import { MOST_ROUTING_K } from '../../config/engine-options.js';
import type { ExpertCost } from '../../protocol/engine-messages.js';

export const Include = z
  .array(z.enum(['experts']))
  .max(8)
  .optional()
  .meta({ description: 'Extra parts of the answer: `experts` is what it cost in experts' });

export const Routing = z.enum(['exact', 'predicted']).nullish().meta({
  description:
    'Who sends tokens to experts: the routers of the model, or the hash tables of the predictor. Default: as the server was started',
});
export const RoutingK = z.int().min(1).max(MOST_ROUTING_K).nullish().meta({
  description: "With predicted routing: experts for each token. Default: the server's",
});

export const Model = z.string().optional().meta({ description: 'Name of the served model; may be left out' });

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
    stall_ms: z.number(),
    predicted: z.int().meta({
      description:
        'Routings, a token to one of its experts in a MoE layer, for which a hash table named experts',
    }),
    ...HITS,
    belady_bytes: z.int().meta({
      description: "Bytes that Belady's rule with the same look-ahead would have moved for this request",
    }),
  })
  .meta({ id: 'Experts', description: 'What the answer cost in experts' });

export function expertsAnswer({ bytes, ...cost }: ExpertCost): z.infer<typeof Experts> {
  return { ...cost, bytes_moved: bytes };
}
