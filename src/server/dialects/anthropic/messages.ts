/** Converts messages of blocks into the messages of a chat. */
import { z } from 'zod';
import { SidaError } from '../../../errors.js';
import { type ChatMessage, Content, GivenObject } from '../../../tasks/shared/conversation-schema.js';
import { exactJson } from '../../../text/exact-json.js';
import { checkAgainst } from '../../../text/schema-faults.js';
import type { CountBody } from './schema.js';

type Block = { type: string } & Record<string, unknown>;
type Texts = { type: 'text'; text: string }[];
type Call = NonNullable<ChatMessage['tool_calls']>[number];

/** What is checked of a block, by its type. */
const BLOCKS = {
  text: z.looseObject({ text: z.string() }),
  thinking: z.looseObject({ thinking: z.string() }),
  tool_use: z.looseObject({
    id: z.string().min(1),
    name: z.string().min(1),
    input: GivenObject,
  }),
  tool_result: z.looseObject({
    tool_use_id: z.string().min(1),
    content: Content.nullish(),
    is_error: z.boolean().nullish(),
  }),
};

/** Messages, and the fields that their contents come from, by which errors name them. */
export interface ChatMessages {
  messages: ChatMessage[];
  contentFields: string[];
}

export function chatMessages({ system, messages }: Pick<CountBody, 'system' | 'messages'>): ChatMessages {
  const found: ChatMessages = { messages: [], contentFields: [] };
  const add = (message: ChatMessage, field: string) => {
    found.messages.push(message);
    found.contentFields.push(field);
  };
  if (system != null) add({ role: 'system', content: textsOf(system, 'system') }, 'system');
  for (const [at, { role, content }] of messages.entries()) {
    const field = `messages.${at}.content`;
    if (role === 'assistant') add(answerOf(content, field), field);
    else if (role === 'system') add({ role, content: textsOf(content, field) }, field);
    else addUser(found, add, content, field);
  }
  return found;
}

function answerOf(content: string | Block[], field: string): ChatMessage {
  const texts: Texts = [];
  const calls: Call[] = [];
  let reasoning = '';
  for (const [at, block] of blocksOf(content).entries()) {
    const param = `${field}.${at}`;
    if (block.type === 'text') texts.push(textOf(block, param));
    else if (block.type === 'thinking') reasoning += checked('thinking', block, param).thinking;
    else if (block.type === 'tool_use') {
      const { id, name, input } = checked('tool_use', block, param);
      calls.push({ id, type: 'function', function: { name, arguments: exactJson(input) } });
    } else if (block.type !== 'redacted_thinking') throw unsupported(block, param);
  }
  return {
    role: 'assistant',
    content: texts.length === 0 && calls.length > 0 ? null : texts,
    ...(reasoning !== '' && { reasoning_content: reasoning }),
    ...(calls.length > 0 && { tool_calls: calls }),
  };
}

/** Results of tools become messages of their own. Texts in a row are one message, across messages, too. */
function addUser(
  { messages }: ChatMessages,
  add: (message: ChatMessage, field: string) => void,
  content: string | Block[],
  field: string,
): void {
  const blocks = blocksOf(content);
  if (blocks.length === 0) blocks.push({ type: 'text', text: '' });
  for (const [at, block] of blocks.entries()) {
    const param = `${field}.${at}`;
    if (block.type === 'tool_result') {
      const { tool_use_id: id, content: result, is_error: failed } = checked('tool_result', block, param);
      const texts = textsOf(result ?? '', `${param}.content`);
      // Templates have no other place that says so.
      if (failed === true) texts.unshift({ type: 'text', text: 'Error:' });
      add({ role: 'tool', tool_call_id: id, content: texts }, `${param}.content`);
    } else if (block.type === 'text') {
      const last = messages.at(-1);
      const text = textOf(block, param);
      if (last?.role === 'user') (last.content as Texts).push(text);
      else add({ role: 'user', content: [text] }, field);
    } else throw unsupported(block, param);
  }
}

function blocksOf(content: string | Block[]): Block[] {
  return typeof content === 'string' ? [{ type: 'text', text: content }] : [...content];
}

function textsOf(content: string | Block[], field: string): Texts {
  return blocksOf(content).map((block, at) => textOf(block, `${field}.${at}`));
}

function textOf(block: Block, param: string): Texts[number] {
  if (block.type !== 'text') throw unsupported(block, param);
  return { type: 'text', text: checked('text', block, param).text };
}

function checked<Type extends keyof typeof BLOCKS>(type: Type, block: Block, param: string) {
  const found = checkAgainst(BLOCKS[type], block);
  if ('data' in found) return found.data as z.infer<(typeof BLOCKS)[Type]>;
  const { path, message } = found.fault;
  throw invalid(`The block is wrong. ${message}`, [param, ...path].join('.'));
}

function unsupported({ type }: Block, param: string): SidaError {
  const named = JSON.stringify(type.slice(0, 64));
  return invalid(`This server does not support blocks of the type ${named} here`, param);
}

function invalid(message: string, param: string): SidaError {
  return new SidaError({ code: 'invalid_request', message, param });
}
