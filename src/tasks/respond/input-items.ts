/** Converts the input items of /v1/responses into the messages of a chat. */
import { z } from 'zod';
import { SidaError } from '../../errors.js';
import { listOf } from '../../text/list-schema.js';
import { checkAgainst } from '../../text/schema-faults.js';
import { Arguments, type ChatMessage, Content, Message, MOST_PARTS } from '../shared/conversation-schema.js';

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

type Call = NonNullable<ChatMessage['tool_calls']>[number];

class TurnMessages {
  readonly #messages: ChatMessage[] = [];
  /** For each message, the field that its content comes from. */
  readonly #fields: string[] = [];
  /** The assistant's message that calls belong to, until another message comes. */
  #turn: ChatMessage | undefined;
  /** Belongs to the message or the call that follows. */
  #reasoning: string | undefined;

  add(message: ChatMessage, field: string): void {
    const answers = message.role === 'assistant';
    this.#push(answers ? { ...message, ...this.#takeReasoning() } : message, field);
    if (!answers) this.#turn = undefined;
    // Templates leave out the reasoning of earlier turns, and an empty message would look like an empty answer.
    this.#reasoning = undefined;
  }

  addReasoning(text: string): void {
    this.#reasoning = (this.#reasoning ?? '') + text;
  }

  addCall(call: Call, field: string): void {
    const turn = this.#reasoning === undefined ? this.#turn : undefined;
    if (turn === undefined)
      this.#push({ role: 'assistant', ...this.#takeReasoning(), tool_calls: [call] }, field);
    else {
      turn.tool_calls ??= [];
      turn.tool_calls.push(call);
    }
  }

  finish(): { messages: ChatMessage[]; contentFields: string[] } {
    // Templates need a message.
    if (this.#messages.length === 0 && this.#reasoning !== undefined)
      this.#push({ role: 'assistant', content: '', ...this.#takeReasoning() }, 'input');
    return { messages: this.#messages, contentFields: this.#fields };
  }

  #push(message: ChatMessage, field: string): void {
    this.#messages.push(message);
    this.#fields.push(field);
    this.#turn = message;
  }

  #takeReasoning(): Pick<ChatMessage, 'reasoning_content'> {
    const reasoning = this.#reasoning;
    this.#reasoning = undefined;
    return reasoning === undefined ? {} : { reasoning_content: reasoning };
  }
}
