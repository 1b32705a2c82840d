/** Turns conversations into token ids. Only the template's own text yields control tokens; users' texts stay text. */
import { isDeepStrictEqual } from 'node:util';
import { SidaError } from '../../errors.js';
import { oneLine } from '../one-line.js';
import { withinTime } from '../time-bound.js';
import type { Tokenizer } from '../tokenizer.js';
import type { MarkedEncoder } from '../tokenizing/library.js';
import { ChatTemplate } from './chat-template.js';
import type { ControlTokens } from './control-tokens.js';
import {
  between,
  CHARACTERS,
  literalsIn,
  markedText,
  namesIn,
  type Rewrite,
  rewritten,
  signsOf,
  undoubled,
  unusedMark,
  wholeTexts,
  wordsOf,
} from './marked-strings.js';
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

interface Opened {
  template: ChatTemplate;
  /** Names that the template may compare a text or a key with. */
  names: ReadonlySet<string>;
  /** Finds what it may look for in a text: words, and `lookedFor` also control tokens that are not special. */
  words: RegExp | undefined;
  lookedFor: RegExp | undefined;
}

/** A rendered conversation. Of texts of users, at least the control tokens have marks. */
interface Rendered {
  text: string;
  mark: string;
}

export class ChatEncoder {
  readonly #templates: ChatTemplates;
  /**
   * What gets marks in the texts of users: every character, or where a template counts them, signs of control tokens.
   * Empty without control tokens.
   */
  readonly #marked: readonly RegExp[];
  /** Control tokens that are not special. */
  readonly #others: ReadonlySet<string>;
  readonly #words: ReadonlySet<string>;
  readonly #encoder: MarkedEncoder;
  readonly #opened = new Map<string, Opened>();
  #fault: string | undefined;

  /** A template that cannot be read is a reason to refuse conversations, not to refuse the model. */
  constructor(
    tokenizer: Pick<Tokenizer, 'markedEncoder'>,
    controls: ControlTokens,
    templates: ChatTemplates,
  ) {
    this.#templates = templates;
    const all = new Set([...controls.special, ...controls.others]);
    this.#marked = all.size === 0 ? [] : [CHARACTERS, signsOf(all)];
    this.#others = controls.others;
    this.#words = wordsOf(all);
    this.#encoder = tokenizer.markedEncoder(all);
    this.#fault = templates.fault;
    try {
      withinTime(OPEN_MS, 'reading it', () => {
        for (const [name, text] of Object.entries(templates.texts))
          this.#opened.set(name, this.#open(text, templates.variables));
      });
    } catch (error) {
      this.#fault ??= oneLine((error as Error).message);
    }
  }

  #open(text: string, variables: Record<string, unknown>): Opened {
    const literals = literalsIn(text).filter((literal) => !this.#words.has(literal));
    return {
      template: new ChatTemplate(text, variables),
      names: namesIn(text),
      words: wholeTexts(literals),
      lookedFor: wholeTexts([...literals, ...this.#others]),
    };
  }

  /** `json` is a `Conversation`. Throws invalid_request or cannot_run. */
  encode(json: string): number[] {
    const { text, mark } = this.#render(json);
    return this.#encoder.encode(text, mark);
  }

  /** The text of the conversation, as the template writes it. */
  render(json: string): string {
    const { text, mark } = this.#render(json);
    return text.replaceAll(mark, '');
  }

  #render(json: string): Rendered {
    const conversation = JSON.parse(json) as Conversation;
    const { template, names, words, lookedFor } = this.#template(conversation);
    const plain = template.render(conversation);
    const mark = unusedMark([json, plain]);
    if (mark === undefined) throw invalid('The messages use every private character of Unicode');
    if (this.#marked.length === 0) return { text: plain, mark };
    const withMarks = (at: RegExp) => (text: string) => markedText(text, at, mark);
    const isName = (text: string) => names.has(text) && !this.#words.has(text);
    const renderedWith = (kept: RegExp | undefined, rest: (text: string) => string, key = rest) =>
      renderedOr(
        template,
        rewrittenTexts(conversation, {
          text: (each) => (isName(each) ? each : between(each, kept, this.#others, rest)),
          key: (each) => (names.has(each) || each === '' ? each : key(each)),
        }),
      );
    const sameControls = (one: string, other: string) =>
      isDeepStrictEqual(this.#encoder.controlsIn(one), this.#encoder.controlsIn(other));
    /** Whether the template writes the same control tokens around texts that have none. */
    const hasOwnControls = (text: string, kept: RegExp | undefined) => {
      const neutral = renderedWith(kept, (each) => each.replace(/\S/gu, mark), withMarks(CHARACTERS));
      return neutral !== undefined && sameControls(text, neutral);
    };
    for (const at of this.#marked) {
      const marked = renderedWith(lookedFor, withMarks(at));
      if (marked === undefined) continue;
      const text = undoubled(marked, plain, mark, this.#others);
      if (text === undefined || !hasOwnControls(marked, lookedFor)) continue;
      return { text: sameControls(text, plain) ? plain : text, mark };
    }
    if (hasOwnControls(plain, words)) return { text: plain, mark };
    throw invalid("The model's chat template makes control tokens of texts in the messages");
  }

  #template({ tools = [] }: Conversation): Opened {
    if (this.#fault !== undefined) {
      const message = `The model's chat template cannot be used: ${this.#fault}`;
      throw new SidaError({ code: 'cannot_run', message, param: 'messages' });
    }
    const name = templateName(this.#templates, tools.length > 0);
    if (name !== undefined) return this.#opened.get(name)!;
    throw invalid('The model names its chat templates, and none of them is the default');
  }
}

/** Roles and the names of variables stay. */
function rewrittenTexts({ messages, ...variables }: Conversation, rewrite: Rewrite): Conversation {
  const rest = Object.entries(variables).map(([name, value]) => [name, rewritten(value, rewrite)]);
  return {
    ...Object.fromEntries(rest),
    messages: messages.map(({ role, ...message }) => ({ role, ...(rewritten(message, rewrite) as object) })),
  };
}

/** Undefined where the template refuses texts with marks, such as an id that has to have nine characters. */
function renderedOr(template: ChatTemplate, conversation: Conversation): string | undefined {
  try {
    return template.render(conversation);
  } catch {
    return undefined;
  }
}

function invalid(message: string): SidaError {
  return new SidaError({ code: 'invalid_request', message, param: 'messages' });
}
