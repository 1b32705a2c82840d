/** Turns conversations into token ids. Only the template's own text yields control tokens; users' texts stay text. */
import { SidaError } from '../../errors.js';
import { oneLine } from '../one-line.js';
import { withinTime } from '../time-bound.js';
import type { Tokenizer } from '../tokenizer.js';
import type { MarkedEncoder } from '../tokenizing/library.js';
import { ChatTemplate } from './chat-template.js';
import type { ControlTokens } from './control-tokens.js';
import { Lookalikes, markedValue, unusedMark } from './marked-strings.js';
import { type ChatTemplates, templateName } from './template-files.js';

/** What a template renders: its variables by name. */
export interface Conversation {
  messages: Message[];
  tools?: unknown[];
  [variable: string]: unknown;
}

/** As templates expect it, with a `content` and other fields. */
export type Message = { role: string } & Record<string, unknown>;

/** Time for reading the templates. */
const OPEN_MS = 2_000;

/** A rendered conversation. The mark stands where a user's text looks like a control token. */
interface Rendered {
  text: string;
  mark: string;
}

export class ChatEncoder {
  readonly #templates: ChatTemplates;
  /** Of special tokens, and of all control tokens. */
  readonly #special: Lookalikes;
  readonly #all: Lookalikes;
  readonly #encode: MarkedEncoder;
  readonly #opened = new Map<string, ChatTemplate>();
  #fault: string | undefined;

  /** A template that cannot be read is a reason to refuse conversations, not to refuse the model. */
  constructor(
    tokenizer: Pick<Tokenizer, 'markedEncoder'>,
    controls: ControlTokens,
    templates: ChatTemplates,
  ) {
    this.#templates = templates;
    const all = new Set([...controls.special, ...controls.others]);
    this.#special = new Lookalikes(controls.special);
    this.#all = new Lookalikes(all);
    this.#encode = tokenizer.markedEncoder(all);
    this.#fault = templates.fault;
    try {
      withinTime(OPEN_MS, 'reading it', () => {
        for (const [name, text] of Object.entries(templates.texts))
          this.#opened.set(name, new ChatTemplate(text, templates.variables));
      });
    } catch (error) {
      this.#fault ??= oneLine((error as Error).message);
    }
  }

  /** `json` is a `Conversation`. Throws invalid_request or cannot_run. */
  encode(json: string): number[] {
    const { text, mark } = this.#render(json);
    return this.#encode(text, mark);
  }

  /** The text of the conversation, as the template writes it. */
  render(json: string): string {
    const { text, mark } = this.#render(json);
    return text.replaceAll(mark, '');
  }

  #render(json: string): Rendered {
    const conversation = JSON.parse(json) as Conversation;
    const template = this.#template(conversation);
    const plain = template.render(conversation);
    const mark = unusedMark([json, plain]);
    if (mark === undefined) throw invalid('The messages use every private character of Unicode');
    let marked = plain;
    for (const rule of RULES) {
      const input = this.#marked(conversation, mark, rule);
      if (!JSON.stringify(input).includes(mark)) return { text: plain, mark };
      marked = template.render(input);
      if (marked.replaceAll(mark, '') === plain) break;
    }
    return { text: marked, mark };
  }

  #marked(
    { messages, ...variables }: Conversation,
    mark: string,
    guardsAll: (role: string) => boolean,
  ): Conversation {
    const marked = (value: unknown, role: string) =>
      markedValue(value, guardsAll(role) ? this.#all : this.#special, mark);
    const rest = Object.entries(variables).map(([name, value]) => [name, marked(value, NO_ROLE)]);
    return {
      ...Object.fromEntries(rest),
      messages: messages.map(({ role, ...message }) => ({ role, ...(marked(message, role) as object) })),
    };
  }

  #template({ tools = [] }: Conversation): ChatTemplate {
    if (this.#fault !== undefined) {
      const message = `The model's chat template cannot be used: ${this.#fault}`;
      throw new SidaError({ code: 'cannot_run', message, param: 'messages' });
    }
    const name = templateName(this.#templates, tools.length > 0);
    if (name !== undefined) return this.#opened.get(name)!;
    throw invalid('The model names its chat templates, and none of them is the default');
  }
}

/**
 * Whose texts are kept from tokens that are not special, and not only from those that are. A template may look for
 * such tokens: for `</think>` in an answer, which it then leaves out. The first rule with which the template writes
 * the same text is used.
 */
const RULES: ((role: string) => boolean)[] = [() => true, (role) => role !== 'assistant', () => false];

/** Role of tools and of other variables. */
const NO_ROLE = '';

function invalid(message: string): SidaError {
  return new SidaError({ code: 'invalid_request', message, param: 'messages' });
}
