/** Schemas of the answers about the service itself: errors, models and health. */
import { z } from 'zod';
import { ROUTING_MODES } from '../../config/engine-options.js';
import { ENGINE_PHASES } from '../../engine/engine-handle.js';
import { ACTIVATIONS } from '../../native/engine-types.js';
import { MODEL_KINDS } from '../../native/model-shape.js';
import { OPENING_PHASES } from '../../protocol/engine-messages.js';

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
    description: z
      .string()
      .nullable()
      .meta({ description: 'Of its card: up to two sentences, at most 300 characters' }),
    tasks: z.record(z.string(), z.object({ template: z.string(), labels: z.array(z.string()) })),
    has_tokenizer: z.boolean(),
    languages: z
      .array(z.string())
      .meta({ description: 'What `/v1/translate` takes; empty if it does not translate' }),
    chat: z.boolean().meta({ description: 'Whether it answers conversations: it has a chat template' }),
    sampling: z
      .object({
        temperature: z.number(),
        top_p: z.number(),
        top_k: z.int(),
        min_p: z.number(),
        repetition_penalty: z.number(),
      })
      .nullable()
      .meta({ description: 'What requests that do not say get; null: the likeliest token' }),
    expert_dtype: z.string().meta({ description: 'Element type of the packed experts' }),
    expert_group: z.int().nullable().meta({ description: 'Inputs that share a scale; null but beside int4' }),
    dense_dtype: z.string().meta({ description: 'Element type of the other packed weights' }),
    activations: z
      .enum(ACTIVATIONS)
      .meta({ description: 'What activations are rounded to where weights can take it' }),
    family: z.string().meta({ description: '`model_type` of its config' }),
    kind: z.enum(MODEL_KINDS).meta({ description: 'encoder-only: it embeds, and answers nothing else' }),
    context_tokens: z.int().meta({
      description: 'Most tokens of a prompt and its answer; of a model with an encoder, those of an input',
    }),
    max_model_len: z.int().meta({ description: 'The same, by the name that vLLM gives it' }),
    /** Of each layer where layers differ. */
    experts_per_layer: z.union([z.int(), z.array(z.int())]),
    experts_per_token: z.int().meta({ description: 'Experts that a router chooses for a token' }),
    moe_layers: z.array(z.string()),
    predictor: z.string().nullable().meta({ description: 'What fills hash tables; null: nothing' }),
    routing: z.enum(ROUTING_MODES).meta({ description: 'What routes tokens in requests that do not say' }),
    state: z.enum(ENGINE_PHASES),
  })
  .meta({ id: 'Model' });

/** A model that no request has loaded yet tells only its name. */
export const UnopenedModel = ModelAnswer.pick({
  id: true,
  object: true,
  created: true,
  owned_by: true,
  state: true,
}).meta({ id: 'UnopenedModel' });

export const ModelsAnswer = z
  .object({ object: z.literal('list'), data: z.array(z.union([ModelAnswer, UnopenedModel])) })
  .meta({ id: 'Models' });

export const VersionAnswer = z.object({ version: z.string() }).meta({ id: 'Version' });

export const LiveAnswer = z.object({ status: z.literal('alive') }).meta({ id: 'Live' });

const PHASES = [...ENGINE_PHASES, 'draining', 'queue_unavailable'] as const;

export const ReadyAnswer = z
  .object({
    status: z.enum(['ready', 'degraded', 'not_ready']).meta({
      description: '`degraded`: of several models, all of which have been open, some are not ready now',
    }),
    phase: z.enum(PHASES),
    reason: z.string().nullable(),
    progress: z.object({ phase: z.enum(OPENING_PHASES), done: z.number(), total: z.number() }).nullable(),
    models: z
      .array(
        z.object({
          id: z.string(),
          status: z.enum(['ready', 'degraded', 'not_ready']),
          phase: z.enum(PHASES),
          reason: z.string().nullable(),
        }),
      )
      .optional()
      .meta({ description: 'Where several models are served' }),
  })
  .meta({ id: 'Ready' });
