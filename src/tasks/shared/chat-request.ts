/** Converts the request of a conversation into what the engine runs. Chats and responses share it. */
import type { ModelInfo } from '../../protocol/engine-messages.js';
import type { AnswerStructure } from '../../structured-output/answer-grammar.js';
import { argumentTypes } from '../../structured-output/argument-types.js';
import type { AnswerFormat } from '../../text/chat/answer-format.js';
import { CALL_FORMS, type PairMarks } from '../../text/chat/call-forms.js';
import { exactJson } from '../../text/exact-json.js';
import type { ChatWork } from './chat-work.js';
import { conversationOf, requireChat } from './conversation.js';
import type { ChatMessage, ChatTool, ToolChoice } from './conversation-schema.js';
import { type AdjustmentRequest, adjustmentsOf } from './logit-adjustments.js';
import { checkLogprobs } from './logprobs.js';
import { checkMaxTokens, type RequestLimits, requireDecoder } from './request-checks.js';
import { runFieldsOf } from './run-fields.js';
import { type SamplingRequest, samplingOf } from './sampling.js';
import { contentStructure, type StructureFormat, structureOf } from './structure.js';
import { checkBytesTogether } from './text-limits.js';
import { tokenExpertsOf } from './token-experts.js';

/** Fields of requests, and what the tasks make of the others. */
interface ConversationRequest extends SamplingRequest, AdjustmentRequest {
  messages: readonly ChatMessage[];
  /** The field that the messages come from, and those of their contents. Errors name them. */
  messagesField: string;
  contentFields: readonly string[];
  tools: readonly ChatTool[];
  /** Of each tool, the field that describes its function. */
  toolFields: readonly string[];
  tool_choice?: ToolChoice;
  reasoning_effort?: string | null | undefined;
  chat_template_kwargs?: Record<string, unknown> | null | undefined;
  n?: number | null | undefined;
  stream?: boolean | null | undefined;
  include?: readonly string[] | null | undefined;
  routing?: 'exact' | 'predicted' | null | undefined;
  routing_k?: number | null | undefined;
  max_seconds?: number | null | undefined;
  maxTokens: number | null;
  /** The field that `maxTokens` comes from. */
  maxTokensField: string;
  /** Whether `maxTokens` may be more than the context has left. */
  cutToContext?: boolean;
  logprobs: number | null;
  stop: string[];
  /** What the answer must be, and the field that says so. */
  format: { value: StructureFormat | null | undefined; param: string };
}

export function prepareConversation(
  request: ConversationRequest,
  model: ModelInfo,
  limits: RequestLimits,
): ChatWork {
  const { messages, contentFields, logprobs, stop, n, tool_choice: choice, cutToContext = false } = request;
  const maxTokens =
    request.maxTokens !== null && cutToContext
      ? Math.min(request.maxTokens, model.contextTokens)
      : request.maxTokens;
  requireDecoder(model.shape);
  const format = requireChat(model);
  const tools = choice === 'none' ? [] : request.tools;
  const structure = structureOf({
    content: contentStructure(request.format.value, request.format.param),
    choice,
    tools: tools.map((tool, at) => ({ tool, field: request.toolFields[at]! })),
    calls: format.answer.kind === 'channels' || format.answer.toolCalls,
    pairs: pairsOf(format.answer),
  });
  const parts = {
    messages,
    contentFields,
    tools,
    reasoningEffort: request.reasoning_effort,
    variables: request.chat_template_kwargs,
  };
  const { conversation: folded, warnings } = conversationOf(parts, format, limits);
  const conversation = exactJson(folded);
  const conversationBytes = Buffer.byteLength(conversation);
  checkBytesTogether(conversationBytes, limits, request.messagesField);
  checkMaxTokens(maxTokens ?? 1, model, request.maxTokensField);
  const choices = n ?? 1;
  if (maxTokens !== null) checkLogprobs(choices * maxTokens, logprobs, 'top_logprobs');
  const sampling = samplingOf(request, model.sampling);
  const adjustments = adjustmentsOf(request, model);
  return {
    conversation,
    conversationBytes,
    ...(warnings.length > 0 && { warnings }),
    answer: answerFormat(format.answer, tools, structure),
    tools: tools.length > 0,
    ...(structure && { structure }),
    ...(choices > 1 && { choices }),
    maxTokens,
    ...(maxTokens !== null && { maxTokensField: request.maxTokensField }),
    ...(maxTokens !== null && cutToContext && { cutToContext }),
    ...(sampling && { sampling }),
    ...(adjustments && { adjustments }),
    stop,
    logprobs,
    stream: request.stream ?? false,
    ...runFieldsOf(request),
    ...tokenExpertsOf({
      include: request.include,
      tokens: maxTokens && choices * maxTokens,
      maxTokensField: request.maxTokensField,
    }),
  };
}

/** A model without a format of calls is made to write the most common one. */
function answerFormat(
  format: AnswerFormat,
  tools: readonly ChatTool[],
  structure: AnswerStructure | undefined,
): AnswerFormat {
  const bound = structure?.calls !== undefined && { boundCalls: true as const };
  if (format.kind === 'channels') return { ...format, ...bound };
  const pairs = tools.length > 0 && pairsOf(format) !== undefined;
  return {
    ...format,
    ...(bound && { toolCalls: true }),
    ...(pairs && { argumentTypes: argumentTypes(tools.map((tool) => tool.function)) }),
    ...bound,
  };
}

function pairsOf(format: AnswerFormat): PairMarks | undefined {
  return format.kind === 'tags' ? CALL_FORMS[format.callForm ?? 'hermes'].pairs : undefined;
}
