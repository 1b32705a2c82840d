/** Turns conversations into token ids. Only the template's own text yields control tokens; users' texts stay text. */
import { isDeepStrictEqual } from 'node:util';
import { SidaError } from '../../errors.js';
import { parseJson } from '../jinja/json.js';
import { Dict, isTrue, type Value } from '../jinja/values.js';
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
import { type ChatTemplates, CONTINUED, templateName } from './template-files.js';
import {
  type CallHabits,
  callHabits,
  described,
  fitted,
  lacksDescription,
  needsDescriptions,
} from './template-habits.js';

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

/** What a template renders. */
interface Readable {
  opened: Opened;
  variables: Dict;
}

interface Opened {
  template: ChatTemplate;
  /** Names that the template may compare a text or a key with. */
  names: ReadonlySet<string>;
  /** Finds what it may look for in a text: words, and `lookedFor` also control tokens that are not special. */
  words: RegExp | undefined;
  lookedFor: RegExp | undefined;
  /** Undefined before the first conversation with calls. */
  habits?: CallHabits;
  /** Undefined before the first tool without a description. */
  needsDescriptions?: boolean;
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
    const { continues, ...conversation } = this.#read(json);
    const rendered = this.#marksIn(json, conversation);
    return continues ? withoutEnd(rendered, textBehind(json, conversation)) : rendered;
  }

  /** What the template gets, and whether the answer goes on with the last message. */
  #read(json: string): Readable & { continues: boolean } {
    const variables = parseJson(json) as Dict;
    const opened = this.#template(variables);
    const habits = () => {
      opened.habits ??= callHabits(opened.template);
      return opened.habits;
    };
    const needs = () => {
      opened.needsDescriptions ??= needsDescriptions(opened.template);
      return opened.needsDescriptions;
    };
    const messages = fitted(variables.get('messages') as Value[], habits);
    const tools = variables.get('tools');
    const fills = Array.isArray(tools) && tools.some(lacksDescription) && needs();
    const values = variables.entries().filter(([name]) => name !== CONTINUED);
    return {
      opened,
      variables: new Dict([
        ...values,
        ['messages', messages],
        ...(fills ? [['tools', described(tools)] as [Value, Value]] : []),
      ]),
      continues: variables.get(CONTINUED) === true,
    };
  }

  #marksIn(json: string, { opened, variables: conversation }: Readable): Rendered {
    const { template, names, words, lookedFor } = opened;
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

  #template(variables: Dict): Opened {
    if (this.#fault !== undefined) {
      const message = `The model's chat template cannot be used: ${this.#fault}`;
      throw new SidaError({ code: 'cannot_run', message, param: 'messages' });
    }
    const name = templateName(this.#templates, isTrue(variables.get('tools') ?? null));
    if (name !== undefined) return this.#opened.get(name)!;
    throw invalid('The model names its chat templates, and none of them is the default');
  }
}

/** Roles and the names of variables stay. */
function rewrittenTexts(conversation: Dict, rewrite: Rewrite): Dict {
  const values = conversation.entries().map(([name, value]): [Value, Value] => {
    if (name !== 'messages') return [name, rewritten(value, rewrite)];
    return [name, (value as Dict[]).map((message) => rewrittenMessage(message, rewrite))];
  });
  return new Dict(values);
}

function rewrittenMessage(message: Dict, rewrite: Rewrite): Dict {
  const fields = message.entries().filter(([name]) => name !== 'role');
  const rest = rewritten(new Dict(fields), rewrite) as Dict;
  return new Dict([['role', message.get('role') as Value], ...rest.entries()]);
}

/** What the template writes behind the last message: behind a sign at its end. */
function textBehind(json: string, { opened, variables }: Readable): string {
  const messages = variables.get('messages') as Dict[];
  const sign = unusedMark([json]) ?? '';
  const signed = new Dict(messages.at(-1)!.entries());
  signed.set('content', String(signed.get('content')) + sign);
  const text = opened.template.render(
    new Dict([...variables.entries(), ['messages', [...messages.slice(0, -1), signed]]]),
  );
  const at = sign === '' ? -1 : text.lastIndexOf(sign);
  if (at >= 0) return text.slice(at + 1);
  throw invalid("The model's chat template does not write the last message, which the answer continues");
}

/** Only the texts of messages have marks, so none is in the end. */
function withoutEnd({ text, mark }: Rendered, end: string): Rendered {
  if (text.endsWith(end)) return { text: text.slice(0, text.length - end.length), mark };
  throw invalid("The model's chat template rewrites the end of the last message, which the answer continues");
}

/** Undefined where the template refuses texts with marks, such as an id that has to have nine characters. */
function renderedOr(template: ChatTemplate, conversation: Dict): string | undefined {
  try {
    return template.render(conversation);
  } catch {
    return undefined;
  }
}

function invalid(message: string): SidaError {
  return new SidaError({ code: 'invalid_request', message, param: 'messages' });
}
