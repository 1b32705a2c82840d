/** Requests and answers of Ollama's API. */
import { z } from 'zod';
import { GivenObject, MOST_CALLS, MOST_MESSAGES, Tools } from '../../../tasks/shared/conversation-schema.js';
import { Model } from '../../../tasks/shared/schema.js';
import { listOf } from '../../../text/list-schema.js';
import { KeepAlive } from './keep-alive.js';
import { Options } from './options.js';

const MOST_INPUTS = 2048;
const MOST_TOP_LOGPROBS = 20;

/** Fields that have no effect here. */
export const IGNORED = ['shift', 'truncate'] as const;

const Images = z.tuple([], { error: 'This server takes no images' }).nullish();
const Nothing = (error: string) => z.literal(['', null], { error }).optional();

const Call = z.looseObject({
  id: z.string().nullish(),
  function: z.looseObject({ name: z.string().min(1), arguments: GivenObject }),
});

const Message = z
  .looseObject({
    role: z.enum(['system', 'user', 'assistant', 'tool']),
    content: z.string().nullish(),
    thinking: z.string().nullish(),
    images: Images,
    tool_calls: listOf(Call, MOST_CALLS).nullish(),
    tool_name: z.string().nullish(),
    tool_call_id: z.string().nullish(),
  })
  .meta({ id: 'OllamaMessage' });
export type OllamaMessage = z.infer<typeof Message>;

const Format = z
  .union([z.literal(['', 'json']), z.record(z.string(), z.unknown())], {
    error: 'Expected "json" or a JSON schema',
  })
  .nullish();

const Think = z
  .union([z.boolean(), z.enum(['low', 'medium', 'high'])], {
    error: 'Expected true, false, "low", "medium" or "high"',
  })
  .nullish()
  .meta({ description: "Whether the model reasons, where its template can tell. Default: the template's" });

const ignored = { truncate: z.boolean().nullish(), shift: z.boolean().nullish() };

const GENERATED = {
  model: Model,
  stream: z.boolean().nullish().meta({ description: 'Default true' }),
  format: Format,
  think: Think,
  options: Options,
  keep_alive: KeepAlive,
  logprobs: z.boolean().nullish(),
  top_logprobs: z.int().min(0).max(MOST_TOP_LOGPROBS).nullish(),
  ...ignored,
};

export const ChatRequest = z
  .strictObject({
    ...GENERATED,
    messages: listOf(Message, MOST_MESSAGES)
      .nullish()
      .meta({
        description: 'Without any, the model is loaded, or with a `keep_alive` of 0 unloaded',
        example: [{ role: 'user', content: 'What kind of thing is a violin?' }],
      }),
    tools: Tools.nullish(),
  })
  .meta({ id: 'OllamaChatRequest' });
export type ChatBody = z.infer<typeof ChatRequest>;

export const GenerateRequest = z
  .strictObject({
    ...GENERATED,
    prompt: z.string().nullish().meta({
      description: 'Without one, the model is loaded, or with a `keep_alive` of 0 unloaded',
      example: 'What kind of thing is a violin?',
    }),
    system: z.string().nullish(),
    raw: z
      .boolean()
      .nullish()
      .meta({ description: 'Whether the model gets the prompt without its template' }),
    images: Images,
    suffix: Nothing('This server fills in no text before a suffix'),
    template: Nothing("This server takes no template: it uses the model's own, or none with raw"),
    context: z.tuple([], { error: 'This server takes no context: send the messages to /api/chat' }).nullish(),
  })
  .meta({ id: 'OllamaGenerateRequest' });
export type GenerateBody = z.infer<typeof GenerateRequest>;

const EMBEDDED = { model: Model, options: Options, keep_alive: KeepAlive };

export const EmbedRequest = z
  .strictObject({
    ...EMBEDDED,
    input: z.union([z.string(), listOf(z.string(), MOST_INPUTS).min(1)], {
      error: `Expected a text, or a list of 1 to ${MOST_INPUTS} texts`,
    }),
    dimensions: z.int().min(1).nullish(),
    ...ignored,
  })
  .meta({ id: 'OllamaEmbedRequest', example: { input: 'a river' } });

export const EmbeddingsRequest = z
  .strictObject({ ...EMBEDDED, prompt: z.string() })
  .meta({ id: 'OllamaEmbeddingsRequest', example: { prompt: 'a river' } });

export const ShowRequest = z
  .strictObject({ model: Model, name: Model, verbose: z.boolean().nullish() })
  .meta({ id: 'OllamaShowRequest', example: { model: 'olmoe-mini' } });

export const PullRequest = z
  .strictObject({
    model: z.string().max(256).optional(),
    name: z.string().max(256).optional(),
    stream: z.boolean().nullish().meta({ description: 'Default true' }),
    insecure: z.literal([false, null], { error: 'This server checks the certificate of the hub' }).optional(),
  })
  .meta({ id: 'OllamaPullRequest', example: { model: 'allenai/OLMoE-1B-7B-0924' } });

const Duration = z.int().meta({ description: 'Nanoseconds' });
const Logprob = z.object({ token: z.string(), logprob: z.number(), bytes: z.array(z.int()).nullable() });

/** Fields of every line of an answer. The last line has durations and counts, too. */
const LINE = {
  model: z.string(),
  created_at: z.string(),
  done: z.boolean(),
  done_reason: z.enum(['stop', 'length', 'load', 'unload']).optional(),
  logprobs: z.array(Logprob.extend({ top_logprobs: z.array(Logprob) })).optional(),
  total_duration: Duration.optional(),
  load_duration: Duration.optional(),
  prompt_eval_count: z.int().optional(),
  prompt_eval_duration: Duration.optional(),
  eval_count: z.int().optional(),
  eval_duration: Duration.optional(),
};

const AnswerCall = z.object({
  id: z.string(),
  function: z.object({ index: z.int(), name: z.string(), arguments: z.record(z.string(), z.unknown()) }),
});
export type AnswerCall = z.infer<typeof AnswerCall>;

export const ChatAnswer = z
  .object({
    ...LINE,
    message: z.object({
      role: z.literal('assistant'),
      content: z.string(),
      thinking: z.string().optional(),
      tool_calls: z.array(AnswerCall).optional(),
    }),
  })
  .meta({ id: 'OllamaChat', description: 'Also the shape of each line of a stream' });

export const GenerateAnswer = z
  .object({ ...LINE, response: z.string(), thinking: z.string().optional() })
  .meta({ id: 'OllamaGeneration', description: 'Also the shape of each line of a stream' });

export const EmbedAnswer = z
  .object({
    model: z.string(),
    embeddings: z.array(z.array(z.number())).meta({ description: 'Each of length 1' }),
    total_duration: Duration,
    load_duration: Duration,
    prompt_eval_count: z.int(),
  })
  .meta({ id: 'OllamaEmbeddings' });

export const EmbeddingsAnswer = z.object({ embedding: z.array(z.number()) }).meta({ id: 'OllamaEmbedding' });

const Details = z.object({
  parent_model: z.string(),
  format: z.string(),
  family: z.string(),
  families: z.array(z.string()),
  parameter_size: z.string().meta({ description: 'Empty: not known' }),
  quantization_level: z.string().meta({ description: 'Element type of the packed experts' }),
});

const Listed = z.object({
  name: z.string(),
  model: z.string(),
  modified_at: z.string().meta({ description: 'Start of the server' }),
  size: z.int().meta({ description: 'Bytes of the packed weights; 0 before the model was loaded' }),
  digest: z.string().meta({ description: 'Its fingerprint; empty before the model was loaded' }),
  details: Details,
});

export const TagsAnswer = z.object({ models: z.array(Listed) }).meta({ id: 'OllamaModels' });

export const RunningAnswer = z
  .object({
    models: z.array(
      Listed.omit({ modified_at: true }).extend({
        size: z.int().meta({ description: 'Bytes in use' }),
        size_vram: z.int(),
        context_length: z.int(),
        expires_at: z
          .string()
          .exactOptional()
          .meta({ description: 'Of several keys, only for `admin` keys' }),
      }),
    ),
  })
  .meta({ id: 'OllamaRunningModels' });

export const ShowAnswer = z
  .object({
    parameters: z.string(),
    details: Details,
    model_info: z.record(z.string(), z.union([z.string(), z.number()])),
    capabilities: z.array(z.enum(['completion', 'embedding', 'tools', 'thinking'])),
    modified_at: z.string(),
  })
  .meta({ id: 'OllamaModel' });

export const VersionAnswer = z
  .object({ version: z.string(), sida: z.string() })
  .meta({ id: 'OllamaVersion' });

export const ProgressAnswer = z
  .object({
    status: z.string(),
    digest: z.string().optional(),
    total: z.int().optional(),
    completed: z.int().optional(),
  })
  .meta({ id: 'OllamaProgress', description: 'Also the shape of each line of a stream' });

export const OllamaError = z.object({ error: z.string() }).meta({ id: 'OllamaError' });
