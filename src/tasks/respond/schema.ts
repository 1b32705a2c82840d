/** The request and the answer of /v1/responses. */
import { z } from 'zod';
import { listOf } from '../../text/list-schema.js';
import { issuesOf } from '../../text/schema-faults.js';
import {
  asGiven,
  CONVERSATION_FIELDS,
  FUNCTION_FIELDS,
  ReasoningEffort,
  TextFormat,
  ToolChoice,
} from '../shared/conversation-schema.js';
import { ADJUSTMENT_FIELDS } from '../shared/logit-adjustments.js';
import { SAMPLING_FIELDS } from '../shared/sampling.js';
import {
  CachedTokens,
  Experts,
  ignoredFields,
  MaxSeconds,
  Model,
  Quote,
  ReasoningTokens,
  Routing,
  RoutingK,
  Warnings,
} from '../shared/schema.js';

const MOST_ITEMS = 4096;
const MOST_TOOLS = 128;
const MOST_INCLUDES = 16;

/** Fields of OpenAI's API that have no effect here. */
export const IGNORED = [
  'max_tool_calls',
  'metadata',
  'parallel_tool_calls',
  'prompt_cache_key',
  'prompt_cache_retention',
  'safety_identifier',
  'service_tier',
  'stream_options',
  'top_logprobs',
  'truncation',
  'user',
] as const;

/** Checked by `messagesOf`, which says what is not supported. */
const Item = z.looseObject({ type: z.string().nullish() });

const FunctionTool = z.looseObject(FUNCTION_FIELDS);

/** Tools of other types than `function` are not offered to the model, so only the type of these is checked. */
const Tool = z.looseObject({ type: z.string() }).check(({ value, issues }) => {
  if (value.type === 'function') issues.push(...issuesOf(FunctionTool, value));
});

/** What `tools` checks. */
export const ToolList = listOf(Tool, MOST_TOOLS);

/** This server keeps no conversation, so a request that builds on one must be refused. */
const notKept = z
  .null({ error: 'This server keeps no responses: send the whole conversation as "input"' })
  .optional();

const { n: _, ...sampling } = SAMPLING_FIELDS;

export const ResponsesRequest = z
  .strictObject({
    model: Model,
    input: z
      .union([z.string(), listOf(Item, MOST_ITEMS).min(1)], {
        error: `Expected a text or a list of 1 to ${MOST_ITEMS} items`,
      })
      .meta({ example: 'What kind of thing is a violin?' }),
    instructions: z.string().nullish().meta({ description: 'Becomes the first message, of the role system' }),
    tools: asGiven(ToolList, 'Tools of the type "function"; others are not offered to the model').nullish(),
    tool_choice: ToolChoice,
    ...CONVERSATION_FIELDS,
    reasoning: z
      .looseObject({ effort: ReasoningEffort })
      .nullish()
      .meta({ description: '`effort` is passed to the chat template, which may ignore it' }),
    text: z.looseObject({ format: TextFormat.nullish() }).nullish(),
    ...sampling,
    ...ADJUSTMENT_FIELDS,
    max_output_tokens: z.int().min(1).max(1_000_000).nullish().meta({
      description: 'Most tokens, reasoning included. Default: what the context has left',
    }),
    stream: z.boolean().nullish(),
    include: listOf(z.string().max(64), MOST_INCLUDES).nullish().meta({
      description:
        '`experts` is what the answer cost in experts, `quote` what it was expected to cost; others have no effect',
    }),
    routing: Routing,
    routing_k: RoutingK,
    max_seconds: MaxSeconds,
    store: z.boolean().nullish().meta({ description: 'Responses are never kept' }),
    previous_response_id: notKept,
    conversation: notKept,
    prompt: z.null({ error: 'This server keeps no prompts: send "instructions" and "input"' }).optional(),
    background: z
      .literal([false, null], { error: 'Responses do not run in the background; /v1/jobs takes a chat' })
      .optional(),
    ...ignoredFields(IGNORED),
  })
  .meta({ id: 'ResponsesRequest' });

const Reasoning = z.object({
  id: z.string(),
  type: z.literal('reasoning'),
  status: z.string(),
  summary: z.array(z.unknown()),
  content: z.array(z.object({ type: z.literal('reasoning_text'), text: z.string() })),
});

const OutputMessage = z.object({
  id: z.string(),
  type: z.literal('message'),
  status: z.string(),
  role: z.literal('assistant'),
  content: z.array(
    z.object({ type: z.literal('output_text'), text: z.string(), annotations: z.array(z.unknown()) }),
  ),
});

const FunctionCall = z.object({
  id: z.string(),
  type: z.literal('function_call'),
  status: z.string(),
  call_id: z.string(),
  name: z.string(),
  arguments: z.string().meta({ description: 'JSON' }),
});

const OutputItem = z.discriminatedUnion('type', [Reasoning, OutputMessage, FunctionCall]);

export const ResponseAnswer = z
  .object({
    id: z.string(),
    object: z.literal('response'),
    created_at: z.int(),
    status: z.enum(['in_progress', 'completed', 'incomplete', 'failed']),
    error: z.object({ code: z.string(), message: z.string() }).nullable(),
    incomplete_details: z.object({ reason: z.literal('max_output_tokens') }).nullable(),
    model: z.string(),
    output: z.array(OutputItem),
    previous_response_id: z.null(),
    store: z.literal(false),
    usage: z
      .object({
        input_tokens: z.int(),
        input_tokens_details: CachedTokens,
        output_tokens: z.int(),
        output_tokens_details: ReasoningTokens,
        total_tokens: z.int(),
      })
      .nullable(),
    experts: Experts.optional(),
    quote: Quote.optional(),
    warnings: Warnings,
  })
  .loose()
  .meta({ id: 'Response', description: 'Repeats the settings of the request beside these fields' });

export type ResponseAnswer = z.infer<typeof ResponseAnswer>;
export type OutputItem = z.infer<typeof OutputItem>;
