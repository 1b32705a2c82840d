/** Converts the messages of a request into what chat templates expect. */
import { createHash } from 'node:crypto';
import { SidaError } from '../../errors.js';
import type { ModelInfo } from '../../protocol/engine-messages.js';
import type { ChatFormat } from '../../text/chat/answer-format.js';
import type { Conversation, Message } from '../../text/chat/chat-encoder.js';
import { CONTINUED, TAKEN_NAMES } from '../../text/chat/template-files.js';
import type { ChatMessage, ChatTool } from './conversation-schema.js';
import { checkText, type RequestLimits, requireTokenizer } from './request-checks.js';

interface ConversationParts {
  messages: readonly ChatMessage[];
  /** The field of each message's content, which errors name. */
  contentFields: readonly string[];
  /** Those that the model may call. */
  tools: readonly ChatTool[];
  reasoningEffort?: string | null | undefined;
  variables?: Record<string, unknown> | null | undefined;
}

export interface FoldedConversation {
  conversation: Conversation;
  /** What the answer has to say of it. */
  warnings: string[];
}

const MOVED = 'so it stands before the text of the user message that follows';
const NO_SYSTEM = `the chat template refuses a system message, ${MOVED}`;
const LATE_SYSTEM = `the chat template refuses a system message behind other messages, ${MOVED}`;

/** Returns how the model's chat works. Throws invalid_request for a model without one. */
export function requireChat(model: ModelInfo): ChatFormat {
  requireTokenizer(model, 'model');
  if (model.chat !== null) return model.chat;
  const message =
    `The model ${JSON.stringify(model.name)} has no chat template, neither in chat_template.jinja nor in ` +
    'tokenizer_config.json; /v1/completions takes its prompts';
  throw new SidaError({ code: 'invalid_request', message, param: 'model' });
}

export function conversationOf(
  { messages, contentFields, tools, reasoningEffort, variables }: ConversationParts,
  format: ChatFormat,
  limits: RequestLimits,
): FoldedConversation {
  for (const name of Object.keys(variables ?? {})) {
    if (!TAKEN_NAMES.has(name)) continue;
    const param = `chat_template_kwargs.${name}`;
    throw invalid(`The variable "${name}" of the chat template belongs to the server`, param);
  }
  checkToolMessages(messages, contentFields);
  const idOf = callIds(messages, format);
  const given = messages.map((message, at) =>
    templateMessage(message, contentFields[at]!, format, idOf, limits),
  );
  const conversation: Conversation = {
    add_generation_prompt: true,
    ...(isBegun(given.at(-1)!) && { add_generation_prompt: false, [CONTINUED]: true }),
    ...(reasoningEffort != null && { reasoning_effort: reasoningEffort }),
    ...variables,
    messages: given,
    ...(tools.length > 0 && { tools: [...tools] }),
  };
  // The request itself may ask for another answer.
  if (conversation.add_generation_prompt !== false) delete conversation[CONTINUED];
  return foldSystemMessages(conversation, format.systemMessages);
}

/** Whether the message is the beginning of an answer, which the model goes on with. */
function isBegun({ role, content, tool_calls: calls }: Message): boolean {
  return role === 'assistant' && calls === undefined && String(content).trim() !== '';
}

/** Moves system messages that the template refuses to the user message that follows. */
function foldSystemMessages(
  conversation: Conversation,
  taken: ChatFormat['systemMessages'],
): FoldedConversation {
  const messages: Message[] = [];
  const waiting: string[] = [];
  const warnings = new Set<string>();
  for (const [at, message] of conversation.messages.entries()) {
    const moves = message.role === 'system' && (taken === 'nowhere' || (taken === 'first' && at > 0));
    if (moves) {
      waiting.push(String(message.content));
      warnings.add(at === 0 ? NO_SYSTEM : LATE_SYSTEM);
      continue;
    }
    const text = waiting.splice(0).join('\n');
    if (text === '') messages.push(message);
    else if (message.role === 'user') messages.push({ ...message, content: `${text}\n${message.content}` });
    else messages.push({ role: 'user', content: text }, message);
  }
  if (waiting.length > 0) messages.push({ role: 'user', content: waiting.join('\n') });
  return { conversation: { ...conversation, messages }, warnings: [...warnings] };
}

/** Throws invalid_request for the result of a call that no message before it makes. */
function checkToolMessages(messages: readonly ChatMessage[], contentFields: readonly string[]): void {
  const called = new Set<string | undefined>();
  for (const [at, { role, tool_calls: calls, tool_call_id: id }] of messages.entries()) {
    for (const call of calls ?? []) called.add(call.id ?? undefined);
    // Calls and results without ids match any.
    if (role !== 'tool' || called.has(undefined) || (id == null ? called.size > 0 : called.has(id))) continue;
    const which = id == null ? 'a call' : `the call ${JSON.stringify(id.slice(0, 100))}`;
    throw invalid(
      `The message has the result of ${which} that no message before it makes`,
      contentFields[at]!,
    );
  }
}

function templateMessage(
  message: ChatMessage,
  contentField: string,
  { developerRole, reasoningField }: ChatFormat,
  idOf: (id: string) => string,
  limits: RequestLimits,
): Message {
  const { name, tool_calls: calls, tool_call_id: callId, reasoning_content: reasoning } = message;
  const role = message.role === 'developer' && !developerRole ? 'system' : message.role;
  const content = contentText(message, contentField);
  checkText(content ?? '', limits, contentField);
  const called = calls != null && calls.length > 0;
  // Templates with that field take either it or a content beside calls.
  const thinks =
    reasoning != null && reasoning !== '' && !(reasoningField === 'thinking' && called && content);
  return {
    role,
    content,
    ...(name != null && { name }),
    ...(thinks && { [reasoningField]: reasoning }),
    ...(called && { tool_calls: calls.map((call) => templateCall(call, idOf)) }),
    ...(callId != null && { tool_call_id: idOf(callId) }),
  };
}

/**
 * Null for an answer that has calls alone: the encoder gives the template what it expects then. An answer of reasoning
 * alone is empty.
 */
function contentText({ role, content, tool_calls: calls }: ChatMessage, param: string): string | null {
  if (typeof content === 'string') return content;
  if (content == null) {
    if (role === 'assistant') return calls != null && calls.length > 0 ? null : '';
    throw invalid(`The message of the role "${role}" has no content`, param);
  }
  return content.map((part, at) => partText(part, `${param}.${at}`)).join('\n');
}

/** Types of parts that are texts, with the field that holds it. Those of /v1/responses are among them. */
const TEXT_PARTS = new Map([
  ['text', 'text'],
  ['input_text', 'text'],
  ['output_text', 'text'],
  ['refusal', 'refusal'],
]);

function partText(part: { type: string } & Record<string, unknown>, param: string): string {
  const field = TEXT_PARTS.get(part.type);
  if (field === undefined) {
    const type = JSON.stringify(part.type.slice(0, 64));
    throw invalid(`The content has a part of the type ${type}; this server supports only text`, param);
  }
  const text = part[field];
  if (typeof text === 'string') return text;
  throw invalid(`Expected a text in the field "${field}"`, `${param}.${field}`);
}

/** The encoder makes objects of arguments where the template expects them. Some servers write none as no text. */
function templateCall(
  { id, function: { name, arguments: given } }: NonNullable<ChatMessage['tool_calls']>[number],
  idOf: (id: string) => string,
) {
  const own = given.trim() === '' ? '{}' : given;
  return { ...(id != null && { id: idOf(id) }), type: 'function', function: { name, arguments: own } };
}

/** The ids of calls as the template takes them. Kimi's templates write the id in place of the name. */
function callIds(
  messages: readonly ChatMessage[],
  { answer, shortCallIds }: ChatFormat,
): (id: string) => string {
  if (shortCallIds) return shortId;
  if (answer.kind !== 'tags' || answer.callForm !== 'kimi') return (id) => id;
  const calls = messages.flatMap(({ tool_calls: own }) => own ?? []);
  const named = new Map(calls.map(({ id, function: { name } }, at) => [id, `functions.${name}:${at}`]));
  return (id) => named.get(id) ?? id;
}

/** The id of nine letters and digits that stands for another one. */
function shortId(id: string): string {
  if (/^[A-Za-z0-9]{9}$/.test(id)) return id;
  return createHash('sha256').update(id).digest('hex').slice(0, 9);
}

function invalid(message: string, param: string): SidaError {
  return new SidaError({ code: 'invalid_request', message, param });
}
