/** Builds the content blocks of a message from the parts of an answer, and the events that report them. */
import type { AnswerPart } from '../../../text/chat/answer-parts.js';
import { argumentsObject } from '../arguments.js';
import type { AnswerBlock } from './schema.js';

export type Event = { type: string } & Record<string, unknown>;

interface BlocksOptions {
  /** Whether the client gets the reasoning. */
  thinking: boolean;
  /** Whether the client gets only the first call. */
  oneCall: boolean;
  callId: (call: number) => string;
}

export class Blocks {
  readonly #options: BlocksOptions;
  readonly blocks: AnswerBlock[] = [];
  /** Whether events of the last block can follow. */
  #open = false;
  #arguments = '';

  constructor(options: BlocksOptions) {
    this.#options = options;
  }

  get called(): boolean {
    return this.blocks.some(({ type }) => type === 'tool_use');
  }

  add(part: AnswerPart): Event[] {
    const { thinking, oneCall, callId } = this.#options;
    if (part.kind === 'call' || part.kind === 'arguments') {
      if (oneCall && part.call > 0) return [];
      if (part.kind === 'arguments') return this.#addArguments(part.text);
      return this.#begin({ type: 'tool_use', id: callId(part.call), name: part.name, input: {} });
    }
    if (part.kind === 'reasoning' && !thinking) return [];
    const type = part.kind === 'reasoning' ? 'thinking' : 'text';
    if (this.#open && this.blocks.at(-1)!.type === type) return this.#addText(part.text);
    // The line breaks are those between two parts of the same kind.
    const text = part.text.replace(/^\n+/, '');
    if (text === '') return [];
    const block: AnswerBlock =
      type === 'text' ? { type, text: '', citations: null } : { type, thinking: '', signature: '' };
    return [...this.#begin(block), ...this.#addText(text)];
  }

  finish(): Event[] {
    if (!this.#open) return [];
    this.#open = false;
    const block = this.blocks.at(-1)!;
    if (block.type === 'tool_use') block.input = argumentsObject(this.#arguments);
    return [{ type: 'content_block_stop', index: this.#index }];
  }

  #begin(block: AnswerBlock): Event[] {
    const ended = this.finish();
    this.blocks.push(block);
    this.#open = true;
    this.#arguments = '';
    return [...ended, { type: 'content_block_start', index: this.#index, content_block: { ...block } }];
  }

  #addText(text: string): Event[] {
    const block = this.blocks.at(-1)!;
    if (block.type === 'text') {
      block.text += text;
      return this.#delta({ type: 'text_delta', text });
    }
    if (block.type === 'thinking') {
      block.thinking += text;
      return this.#delta({ type: 'thinking_delta', thinking: text });
    }
    return [];
  }

  #addArguments(json: string): Event[] {
    this.#arguments += json;
    return this.#delta({ type: 'input_json_delta', partial_json: json });
  }

  #delta(delta: object): Event[] {
    return [{ type: 'content_block_delta', index: this.#index, delta }];
  }

  get #index(): number {
    return this.blocks.length - 1;
  }
}
