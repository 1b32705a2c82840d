/** Converts the input items of /v1/responses into the messages of a chat. */
import { z } from 'zod';
import { SidaError } from '../../errors.js';
import { listOf } from '../../text/list-schema.js';
import { checkAgainst } from '../../text/schema-faults.js';
import { Arguments, type ChatMessage, Content, Message, MOST_PARTS } from '../shared/conversation-schema.js';
import { TurnMessages } from './turn-messages.js';

type Item = { type?: string | null | undefined } & Record<string, unknown>;

/** Messages, and the fields that their contents come from, by which errors name them. */
interface ItemMessages {
  messages: ChatMessage[];
  contentFields: string[];
}

const MessageItem = Message.pick({ role: true, content: true });

const Texts = listOf(z.looseObject({ text: z.string() }), MOST_PARTS);

/** Of reasoning that is encrypted, nothing can be read. */
const ReasoningItem = z.looseObject({ summary: Texts.nullish(), content: Texts.nullish() });

const CallItem = z.looseObject({
  call_id: z.string().nullish(),
  name: z.string().min(1),
  arguments: Arguments,
});

const OutputItem = z.looseObject({ call_id: z.string().nullish(), output: Content });

/** What is checked of an item, by its type. */
export const ITEMS = {
  message: MessageItem,
  reasoning: ReasoningItem,
  function_call: CallItem,
  function_call_output: OutputItem,
};

export function messagesOf(input: string | Item[], instructions: string | null | undefined): ItemMessages {
  const messages = new TurnMessages();
  if (instructions != null) messages.add({ role: 'system', content: instructions }, 'instructions');
  if (typeof input === 'string') messages.add({ role: 'user', content: input }, 'input');
  else for (const [at, item] of input.entries()) addItem(messages, item, `input.${at}`);
  return messages.finish();
}

function addItem(messages: TurnMessages, item: Item, param: string): void {
  switch (item.type ?? 'message') {
    case 'message': {
      const { role, content } = checked(ITEMS.message, item, param);
      messages.add({ role, content }, `${param}.content`);
      break;
    }
    case 'reasoning': {
      const { content, summary } = checked(ITEMS.reasoning, item, param);
      const texts = content != null && content.length > 0 ? content : (summary ?? []);
      messages.addReasoning(texts.map(({ text }) => text).join('\n'));
      break;
    }
    case 'function_call': {
      const { call_id: id, name, arguments: given } = checked(ITEMS.function_call, item, param);
      messages.addCall({ id, type: 'function', function: { name, arguments: given } }, param);
      break;
    }
    case 'function_call_output': {
      const { call_id: id, output } = checked(ITEMS.function_call_output, item, param);
      messages.add({ role: 'tool', tool_call_id: id, content: output }, `${param}.output`);
      break;
    }
    default: {
      const type = JSON.stringify(String(item.type).slice(0, 64));
      throw invalid(`This server does not support input items of the type ${type}`, param);
    }
  }
}

function checked<S extends z.ZodType>(schema: S, item: Item, param: string): z.infer<S> {
  const found = checkAgainst(schema, item);
  if ('data' in found) return found.data;
  const { path, message } = found.fault;
  throw invalid(`The input item is wrong. ${message}`, [param, ...path].join('.'));
}

function invalid(message: string, param: string): SidaError {
  return new SidaError({ code: 'invalid_request', message, param });
}
