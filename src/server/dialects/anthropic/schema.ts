/** Requests and answers of Anthropic's Messages API. */
import { z } from 'zod';
import {
  Content,
  FUNCTION_FIELDS,
  functionName,
  MOST_MESSAGES,
  MOST_TOOLS,
} from '../../../tasks/shared/conversation-schema.js';
import { SAMPLING_FIELDS, stopList } from '../../../tasks/shared/sampling.js';
import { ignoredFields, Model } from '../../../tasks/shared/schema.js';
import { listOf } from '../../../text/list-schema.js';

/** Longer names than OpenAI's. */
const ToolName = functionName(128);

const MOST_STOPS = 16;

/** Fields that have no effect here. */
export const IGNORED = [
  'anthropic_beta',
  'billing_policy',
  'cache_control',
  'compaction',
  'context_management',
  'diagnostics',
  'fallback_credit_token',
  'fallbacks',
  'inference_geo',
  'metadata',
  'service_tier',
  'speed',
  'user_profile_id',
  'workspace_id',
] as const;

const Message = z
  .looseObject({
    role: z.enum(['user', 'assistant', 'system']),
    content: Content.meta({
      description: 'A text, or blocks: text, tool_use, tool_result, thinking, redacted_thinking',
    }),
  })
  .meta({ id: 'AnthropicMessageParam' });

const Tool = z.looseObject({
  type: z
    .literal('custom', {
      error: 'Only tools of the type "custom" are supported: this server runs none itself',
    })
    .nullish(),
  name: ToolName,
  description: FUNCTION_FIELDS.description,
  input_schema: z.record(z.string(), z.unknown()),
  strict: FUNCTION_FIELDS.strict,
});

const ONE_CALL = { disable_parallel_tool_use: z.boolean().nullish() };

const ToolChoice = z.discriminatedUnion(
  'type',
  [
    z.looseObject({ type: z.literal('auto'), ...ONE_CALL }),
    z.looseObject({ type: z.literal('any'), ...ONE_CALL }),
    z.looseObject({ type: z.literal('tool'), name: ToolName, ...ONE_CALL }),
    z.looseObject({ type: z.literal('none') }),
  ],
  { error: 'Expected the type "auto", "any", "tool" or "none"' },
);

const Thinking = z.looseObject({
  type: z.enum(['enabled', 'adaptive', 'between_tools', 'disabled']),
  budget_tokens: z.int().min(1).nullish(),
  display: z.enum(['summarized', 'omitted']).nullish(),
});

const Format = z
  .looseObject({ type: z.literal('json_schema'), schema: z.record(z.string(), z.unknown()) })
  .nullish()
  .meta({ description: 'The answer is JSON that the schema describes' });

const COUNTED = {
  model: Model,
  messages: listOf(Message, MOST_MESSAGES).min(1, { error: 'Expected at least one message' }),
  system: Content.nullish().meta({ description: 'A text or blocks of text' }),
  tools: listOf(Tool, MOST_TOOLS).nullish(),
  tool_choice: ToolChoice.nullish(),
  thinking: Thinking.nullish().meta({
    description: 'Whether the model reasons, where its template can tell. `budget_tokens` has no effect',
  }),
  output_config: z
    .looseObject({ effort: z.enum(['low', 'medium', 'high', 'xhigh', 'max']).nullish(), format: Format })
    .nullish(),
  output_format: Format,
  mcp_servers: z.tuple([], { error: 'This server connects to no MCP servers' }).nullish(),
  container: z.null({ error: 'This server has no containers' }).optional(),
  thread: z.null({ error: 'This server keeps no messages: send all of them' }).optional(),
  ...ignoredFields(IGNORED),
  metadata: z.looseObject({ user_id: z.string().nullish() }).nullish().meta({ description: 'Not used' }),
};

export const CountRequest = z.strictObject(COUNTED).meta({
  id: 'AnthropicCountRequest',
  example: { messages: [{ role: 'user', content: 'What kind of thing is a violin?' }] },
});

export const MessagesRequest = z
  .strictObject({
    ...COUNTED,
    max_tokens: z.int().min(1).meta({ description: 'Most tokens, reasoning included' }),
    stop_sequences: stopList(MOST_STOPS).nullish(),
    temperature: SAMPLING_FIELDS.temperature,
    top_p: SAMPLING_FIELDS.top_p,
    top_k: SAMPLING_FIELDS.top_k,
    stream: z.boolean().nullish(),
  })
  .meta({
    id: 'AnthropicMessagesRequest',
    example: { max_tokens: 64, messages: [{ role: 'user', content: 'What kind of thing is a violin?' }] },
  });

export type MessagesBody = z.infer<typeof MessagesRequest>;
export type CountBody = z.infer<typeof CountRequest>;

const AnswerBlock = z.discriminatedUnion('type', [
  z.object({ type: z.literal('thinking'), thinking: z.string(), signature: z.string() }),
  z.object({ type: z.literal('text'), text: z.string(), citations: z.null() }),
  z.object({
    type: z.literal('tool_use'),
    id: z.string(),
    name: z.string(),
    input: z.record(z.string(), z.unknown()),
  }),
]);
export type AnswerBlock = z.infer<typeof AnswerBlock>;

const Usage = z.object({
  input_tokens: z.int().meta({ description: 'Tokens of the prompt that the prefix cache had not' }),
  output_tokens: z.int(),
  output_tokens_details: z.object({ thinking_tokens: z.int() }),
  cache_read_input_tokens: z.int(),
  cache_creation_input_tokens: z.int(),
});

export const MessageAnswer = z
  .object({
    id: z.string(),
    type: z.literal('message'),
    role: z.literal('assistant'),
    model: z.string(),
    content: z.array(AnswerBlock),
    stop_reason: z
      .enum(['end_turn', 'max_tokens', 'model_context_window_exceeded', 'stop_sequence', 'tool_use'])
      .nullable(),
    stop_sequence: z.string().nullable(),
    usage: Usage,
  })
  .meta({ id: 'AnthropicMessage' });
export type MessageAnswer = z.infer<typeof MessageAnswer>;

export const CountAnswer = z.object({ input_tokens: z.int() }).meta({ id: 'AnthropicCount' });

export const AnthropicError = z
  .object({
    type: z.literal('error'),
    error: z.object({
      type: z.string(),
      message: z.string(),
      details: z.record(z.string(), z.unknown()).optional(),
    }),
    request_id: z.string(),
  })
  .meta({ id: 'AnthropicError' });
