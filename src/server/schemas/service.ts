/** Schemas of the answers about the service itself: models and health. */
import { z } from 'zod';

export const ModelPath = z.object({ id: z.string().meta({ description: "The model's name" }) });

export const ModelAnswer = z
  .object({
    id: z.string(),
    object: z.literal('model'),
    created: z.int(),
    owned_by: z.string(),
    fingerprint: z.string().meta({ description: 'Hash of everything in the pack: equal ones answer alike' }),
    identity: z
      .object({
        weights: z.string().meta({ description: 'Of the checkpoint, whatever it is packed in' }),
        tokenizer: z.string().nullable(),
        tasks: z.string().nullable(),
        chat_template: z.string().nullable(),
        generation_config: z.string().nullable(),
      })
      .meta({ description: 'Hashes of its parts; null: it has no such file' }),
    tasks: z.record(z.string(), z.object({ template: z.string(), labels: z.array(z.string()) })),
    has_tokenizer: z.boolean(),
    expert_dtype: z.string().meta({ description: 'Element type of the packed experts' }),
    expert_group: z.int().nullable().meta({ description: 'Inputs that share a scale; null but beside int4' }),
    dense_dtype: z.string().meta({ description: 'Element type of the other packed weights' }),
    family: z.string().meta({ description: '`model_type` of its config' }),
    kind: z.enum(['encoder-decoder', 'decoder-only']),
    context_tokens: z.int().nullable().meta({ description: 'Tokens it was made for; null: not said' }),
    experts_per_layer: z.int(),
    experts_per_token: z.int().meta({ description: 'Experts that a router chooses for a token' }),
    moe_layers: z.array(z.string()),
  })
  .meta({ id: 'Model' });

export const ModelsAnswer = z
  .object({ object: z.literal('list'), data: z.array(ModelAnswer) })
  .meta({ id: 'Models' });

export const LiveAnswer = z.object({ status: z.literal('alive') }).meta({ id: 'Live' });

export const ReadyAnswer = z
  .object({
    status: z.enum(['ready', 'not_ready']),
    phase: z.enum([
      'starting',
      'converting',
      'loading',
      'ready',
      'restarting',
      'failed',
      'closed',
      'draining',
      'queue_unavailable',
    ]),
    reason: z.string().nullable(),
    progress: z
      .object({ phase: z.enum(['convert', 'hash', 'load']), done: z.number(), total: z.number() })
      .nullable(),
  })
  .meta({ id: 'Ready' });
