/** The request and the answer of /v1/chat/completions. */
import { z } from 'zod';
import { listOf } from '../../text/list-schema.js';
import {
  CONVERSATION_FIELDS,
  Messages,
  ReasoningEffort,
  ResponseFormat,
  ToolChoice,
  Tools,
} from '../shared/conversation-schema.js';
import { ADJUSTMENT_FIELDS } from '../shared/logit-adjustments.js';
import { neutral, SAMPLING_FIELDS, STOP } from '../shared/sampling.js';
import {
  Experts,
  GenerationInclude,
  ignoredFields,
  MaxSeconds,
  Model,
  Quote,
  ReasoningTokens,
  Routing,
  RoutingK,
  Usage,
  Warnings,
} from '../shared/schema.js';
import { StreamOptions } from '../shared/stream-options.js';
import { TokenExperts } from '../shared/token-experts.js';

/** As many as OpenAI allows. */
const MOST_TOP_LOGPROBS = 20;
const MOST_TOKENS = 1_000_000;
const MOST_MODALITIES = 8;

/** Fields of OpenAI's API that have no effect here. */
export const IGNORED = [
  'metadata',
  'parallel_tool_calls',
  'prediction',
  'prompt_cache_key',
  'prompt_cache_retention',
  'safety_identifier',
  'service_tier',
  'store',
  'user',
  'verbosity',
] as const;

const Count = z.int().min(1).max(MOST_TOKENS).nullish();

export const ChatRequest = z
  .strictObject({
    model: Model,
    messages: Messages,
    tools: Tools.nullish(),
    tool_choice: ToolChoice,
    ...CONVERSATION_FIELDS,
    reasoning_effort: ReasoningEffort.meta({
      description: 'Passed to the chat template, which may ignore it',
    }),
    ...SAMPLING_FIELDS,
    ...ADJUSTMENT_FIELDS,
    routing: Routing,
    routing_k: RoutingK,
    max_seconds: MaxSeconds,
    include: GenerationInclude,
    max_tokens: Count,
    max_completion_tokens: Count.meta({
      description: 'Most tokens of a choice, reasoning included. Default: what the context has left',
    }),
    stop: STOP,
    logprobs: z.boolean().nullish(),
    top_logprobs: z.int().min(0).max(MOST_TOP_LOGPROBS).nullish(),
    response_format: ResponseFormat.nullish(),
    stream: z.boolean().nullish(),
    stream_options: StreamOptions,
    return_token_ids: z.boolean().nullish(),
    functions: neutral(null),
    function_call: z
      .literal('none', {
        error: 'This server supports only "none"; "tools" and "tool_choice" take its place',
      })
      .nullish()
      .meta({ description: 'Accepted for compatibility' }),
    modalities: listOf(
      z.literal('text', { error: 'This server makes only text' }),
      MOST_MODALITIES,
    ).nullish(),
    ...ignoredFields(IGNORED),
  })
  .meta({ id: 'ChatRequest' });

const TokenLogprob = z.object({
  token: z.string(),
  logprob: z.number(),
  bytes: z.array(z.int()).nullable(),
});

const Logprobs = z.object({
  content: z
    .array(TokenLogprob.extend({ top_logprobs: z.array(TokenLogprob) }))
    .meta({ description: 'All generated tokens, also those of reasoning and of tool calls' }),
  refusal: z.null(),
});

const ToolCall = z.object({
  id: z.string(),
  type: z.literal('function'),
  function: z.object({ name: z.string(), arguments: z.string().meta({ description: 'JSON' }) }),
});

const FinishReason = z.enum(['stop', 'length', 'tool_calls']);

const ChatUsage = Usage.extend({ completion_tokens_details: ReasoningTokens });

const common = {
  id: z.string(),
  created: z.int(),
  model: z.string(),
};

export const ChatAnswer = z
  .object({
    ...common,
    object: z.literal('chat.completion'),
    choices: z.array(
      z.object({
        index: z.int(),
        message: z.object({
          role: z.literal('assistant'),
          content: z.string().nullable(),
          refusal: z.null(),
          reasoning_content: z
            .string()
            .optional()
            .meta({ description: 'What the model wrote before its answer' }),
          tool_calls: z.array(ToolCall).optional(),
        }),
        logprobs: Logprobs.nullable(),
        finish_reason: FinishReason,
        token_ids: z.array(z.int()).optional(),
      }),
    ),
    usage: ChatUsage,
    experts: Experts.optional(),
    quote: Quote.optional(),
    token_experts: TokenExperts.optional(),
    warnings: Warnings,
  })
  .meta({ id: 'ChatCompletion' });

/** A chunk of a stream. */
export const ChatChunk = z.object({
  ...common,
  object: z.literal('chat.completion.chunk'),
  choices: z.array(
    z.object({
      index: z.int(),
      delta: z.object({
        role: z.literal('assistant').optional(),
        content: z.string().optional(),
        reasoning_content: z.string().optional(),
        tool_calls: z
          .array(
            z.object({
              index: z.int(),
              id: z.string().optional(),
              type: z.literal('function').optional(),
              function: z.object({ name: z.string().optional(), arguments: z.string() }),
            }),
          )
          .optional(),
      }),
      logprobs: Logprobs.nullable(),
      finish_reason: FinishReason.nullable(),
      token_ids: z.array(z.int()).optional(),
    }),
  ),
  usage: ChatUsage.nullable().optional(),
  experts: Experts.optional(),
  quote: Quote.optional(),
  token_experts: TokenExperts.optional(),
});

export type ChatAnswer = z.infer<typeof ChatAnswer>;
export type ChatChunk = z.infer<typeof ChatChunk>;
export type ChatLogprobs = z.infer<typeof Logprobs>;
