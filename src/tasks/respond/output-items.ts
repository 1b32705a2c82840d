/** Builds the output items of a response from the parts of an answer, and the events that report them. */
import type { AnswerPart } from '../../text/chat/answer-parts.js';
import type { OutputItem } from './schema.js';

/** An event without its sequence number. */
export type ItemEvent = { type: string } & Record<string, unknown>;

/** Makes the ids of items and of calls. */
export type ItemIds = (prefix: 'rs' | 'msg' | 'fc' | 'call', item: number) => string;

const TEXT_EVENTS = { reasoning: 'response.reasoning_text', message: 'response.output_text' } as const;

export class OutputItems {
  readonly items: OutputItem[] = [];
  readonly #ids: ItemIds;
  /** The last item, while its text arrives. */
  #open: { item: OutputItem; call: number | undefined } | undefined;

  constructor(ids: ItemIds) {
    this.#ids = ids;
  }

  add(part: AnswerPart): ItemEvent[] {
    if (part.kind === 'call') return [...this.#close(), ...this.#begin(this.#callItem(part.name), part.call)];
    if (part.kind === 'arguments') return this.#addArguments(part.text);
    const type = part.kind === 'content' ? 'message' : 'reasoning';
    if (this.#open?.item.type === type) return this.#addText(part.text);
    // The line breaks are those between two parts of the same kind.
    const text = part.text.replace(/^\n+/, '');
    if (text === '') return [];
    return [...this.#close(), ...this.#begin(this.#textItem(type), undefined), ...this.#addText(text)];
  }

  /** Ends the last item. `complete`: whether the model ended its answer. An answer has at least one item. */
  finish(complete: boolean): ItemEvent[] {
    const begun = this.items.length === 0 ? this.#begin(this.#textItem('message'), undefined) : [];
    return [...begun, ...this.#close(complete ? 'completed' : 'incomplete')];
  }

  #textItem(type: 'message' | 'reasoning'): OutputItem {
    const status = 'in_progress';
    const at = this.items.length;
    if (type === 'reasoning') return { id: this.#ids('rs', at), type, status, summary: [], content: [] };
    return { id: this.#ids('msg', at), type, status, role: 'assistant', content: [] };
  }

  #callItem(name: string): OutputItem {
    const at = this.items.length;
    const ids = { id: this.#ids('fc', at), call_id: this.#ids('call', at) };
    return { ...ids, type: 'function_call', status: 'in_progress', name, arguments: '' };
  }

  #begin(item: OutputItem, call: number | undefined): ItemEvent[] {
    this.items.push(item);
    this.#open = { item, call };
    const added = {
      type: 'response.output_item.added',
      output_index: this.#index,
      item: structuredClone(item),
    };
    if (item.type === 'function_call') return [added];
    const part = partOf(item, '');
    item.content = [part] as typeof item.content;
    return [added, { type: 'response.content_part.added', ...this.#place(item), part: { ...part } }];
  }

  #addText(text: string): ItemEvent[] {
    const { item } = this.#open!;
    if (item.type === 'function_call') return [];
    item.content[0]!.text += text;
    const more = item.type === 'message' ? { logprobs: [] } : {};
    return [{ type: `${TEXT_EVENTS[item.type]}.delta`, ...this.#place(item), delta: text, ...more }];
  }

  #addArguments(text: string): ItemEvent[] {
    const { item } = this.#open!;
    if (item.type !== 'function_call') return [];
    item.arguments += text;
    const type = 'response.function_call_arguments.delta';
    return [{ type, item_id: item.id, output_index: this.#index, delta: text }];
  }

  #close(status = 'completed'): ItemEvent[] {
    const item = this.#open?.item;
    if (item === undefined) return [];
    item.status = status;
    const done = { type: 'response.output_item.done', output_index: this.#index, item };
    const ends = item.type === 'function_call' ? [this.#argumentsDone(item)] : this.#textDone(item);
    this.#open = undefined;
    return [...ends, done];
  }

  #argumentsDone({ id, name, arguments: text }: Extract<OutputItem, { type: 'function_call' }>): ItemEvent {
    const type = 'response.function_call_arguments.done';
    return { type, item_id: id, output_index: this.#index, name, arguments: text };
  }

  #textDone(item: Exclude<OutputItem, { type: 'function_call' }>): ItemEvent[] {
    const { text } = item.content[0]!;
    const more = item.type === 'message' ? { logprobs: [] } : {};
    return [
      { type: `${TEXT_EVENTS[item.type]}.done`, ...this.#place(item), text, ...more },
      { type: 'response.content_part.done', ...this.#place(item), part: item.content[0] },
    ];
  }

  #place({ id }: OutputItem) {
    return { item_id: id, output_index: this.#index, content_index: 0 };
  }

  get #index(): number {
    return this.items.length - 1;
  }
}

function partOf({ type }: OutputItem, text: string) {
  return type === 'message'
    ? { type: 'output_text' as const, text, annotations: [] }
    : { type: 'reasoning_text' as const, text };
}
