/** Joins the items of an assistant's turn, its reasoning, its text and its calls, into one message. */
import type { ChatMessage } from '../shared/conversation-schema.js';

type Call = NonNullable<ChatMessage['tool_calls']>[number];

export class TurnMessages {
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
