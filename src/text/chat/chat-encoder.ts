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
  CHARACTERS,
  markedText,
  namesIn,
  type Rewrite,
  rewritten,
  signsOf,
  unusedMark,
  wholeTokens,
  wordsOf,
} from './marked-strings.js';
import { type ChatTemplates, CONTINUED, templateName } from './template-files.js';
import { type CallHabits, callHabits, fitted } from './template-habits.js';

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
  /** Names that the template may compare texts with. */
  names: ReadonlySet<string>;
  /** Undefined before the first conversation with calls. */
  habits?: CallHabits;
}

/** A rendered conversation. Of texts of users, at least the control tokens have marks. */
interface Rendered {
  text: string;
  mark: string;
}

export class ChatEncoder {
  readonly #templates: ChatTemplates;
  /** Finds signs of control tokens. Undefined without control tokens. */
  readonly #signs: RegExp | undefined;
  /** Finds control tokens that are not special. */
  readonly #others: RegExp | undefined;
  readonly #special: ReadonlySet<string>;
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
    this.#signs = all.size === 0 ? undefined : signsOf(all);
    this.#others = wholeTokens(controls.others);
    this.#special = controls.special;
    this.#words = wordsOf(all);
    this.#encoder = tokenizer.markedEncoder(all);
    this.#fault = templates.fault;
    try {
      withinTime(OPEN_MS, 'reading it', () => {
        for (const [name, text] of Object.entries(templates.texts))
          this.#opened.set(name, {
            template: new ChatTemplate(text, templates.variables),
            names: namesIn(text),
          });
      });
    } catch (error) {
      this.#fault ??= oneLine((error as Error).message);
    }
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
    const { continued, ...conversation } = this.#read(json);
    const rendered = this.#marksIn(json, conversation);
    return continued === undefined ? rendered : cutBehind(continued, rendered);
  }

  /** What the template gets, and the text of a last message that the answer goes on with. */
  #read(json: string): Readable & { continued: string | undefined } {
    const variables = parseJson(json) as Dict;
    const opened = this.#template(variables);
    const habits = () => {
      opened.habits ??= callHabits(opened.template);
      return opened.habits;
    };
    const messages = fitted(variables.get('messages') as Value[], habits);
    const last = variables.get(CONTINUED) === true ? messages.at(-1) : undefined;
    const values = variables.entries().filter(([name]) => name !== CONTINUED);
    return {
      opened,
      variables: new Dict([...values, ['messages', messages]]),
      continued: last instanceof Dict ? String(last.get('content')) : undefined,
    };
  }

  #marksIn(json: string, { opened: { template, names }, variables: conversation }: Readable): Rendered {
    const plain = template.render(conversation);
    const mark = unusedMark([json, plain]);
    if (mark === undefined) throw invalid('The messages use every private character of Unicode');
    if (this.#signs === undefined) return { text: plain, mark };
    const isName = (text: string) => names.has(text) && !this.#words.has(text);
    let marked: string | undefined;
    let same = false;
    let used = RULES[0]!;
    for (const rule of RULES) {
      used = rule;
      marked = renderedOr(template, this.#marked(conversation, mark, rule, isName, this.#signs));
      same = marked?.replaceAll(mark, '') === plain;
      if (same) break;
    }
    // The marked text has the control tokens of the template alone.
    const own = marked === undefined ? undefined : this.#encoder.controlsIn(marked);
    if (!(same && used.every === 'all') && own !== undefined) {
      // Letters without marks may have become a part of a control token.
      const text = (each: string) => (isName(each) ? each : each.replace(/\S/gu, mark));
      const key = (each: string) => (this.#words.has(each) && !names.has(each) ? text(each) : each);
      const neutral = renderedOr(
        template,
        rewrittenTexts(conversation, () => ({ text, key })),
      );
      const special = (tokens: readonly string[]) => tokens.filter((token) => this.#special.has(token));
      const there = neutral === undefined ? own : this.#encoder.controlsIn(neutral);
      if (!isDeepStrictEqual(special(own), special(there))) throw madeOfTexts();
    }
    if (isDeepStrictEqual(own, this.#encoder.controlsIn(plain))) return { text: plain, mark };
    if (same) return { text: marked!, mark };
    throw madeOfTexts();
  }

  #marked(
    conversation: Dict,
    mark: string,
    { every, keeps }: Rule,
    isName: (text: string) => boolean,
    signs: RegExp,
  ): Dict {
    return rewrittenTexts(conversation, (role) => {
      const all = every === 'all' || (every === 'messages' && role !== NO_ROLE);
      const marking = { marked: all ? CHARACTERS : signs, kept: keeps(role) ? this.#others : undefined };
      const text = (each: string) => markedText(each, mark, marking);
      // Templates read fields by names.
      const isField = (key: string) => (every === 'all' ? isName(key) || key === '' : /^\w*$/.test(key));
      return {
        text: (each) => (every === 'all' && isName(each) ? each : text(each)),
        key: (key) => (isField(key) ? key : text(key)),
      };
    });
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

interface Rule {
  /** Whose texts have a mark at every character, but for names of the template. Others have them at signs. */
  every: 'all' | 'messages' | 'none';
  /** Whose texts keep control tokens that are not special. */
  keeps: (role: string) => boolean;
}

/**
 * A template may look for words in a message, such as `/no_think`, and for tokens that are not special: for `</think>`
 * in an answer, which it then leaves out. The first rule with which the template writes the same text is used.
 */
const RULES: readonly Rule[] = [
  { every: 'all', keeps: () => false },
  { every: 'messages', keeps: () => false },
  { every: 'none', keeps: () => false },
  { every: 'none', keeps: (role) => role === 'assistant' },
  { every: 'none', keeps: () => true },
];

/** Role of tools and of other variables. */
const NO_ROLE = '';

/** `rewriteOf` gets the role of a message. Roles stay. */
function rewrittenTexts(conversation: Dict, rewriteOf: (role: string) => Rewrite): Dict {
  const values = conversation.entries().map(([name, value]): [Value, Value] => {
    if (name !== 'messages') return [name, rewritten(value, rewriteOf(NO_ROLE))];
    return [name, (value as Dict[]).map((message) => rewrittenMessage(message, rewriteOf))];
  });
  return new Dict(values);
}

function rewrittenMessage(message: Dict, rewriteOf: (role: string) => Rewrite): Dict {
  const role = message.get('role') as string;
  const fields = message.entries().filter(([name]) => name !== 'role');
  const rest = rewritten(new Dict(fields), rewriteOf(role)) as Dict;
  return new Dict([['role', role], ...rest.entries()]);
}

/** The text without what the template writes behind a last message that begins the answer. */
function cutBehind(continued: string, { text, mark }: Rendered): Rendered {
  const plain = text.replaceAll(mark, '');
  const begin = plain.lastIndexOf(continued.trim());
  if (begin < 0)
    throw invalid("The model's chat template does not write the last message, which the answer continues");
  const whole = plain.startsWith(continued.trimStart(), begin) ? continued.trimStart() : continued.trim();
  let left = begin + whole.length;
  let end = 0;
  for (; left > 0 || text[end] === mark; end += 1) if (text[end] !== mark) left -= 1;
  return { text: text.slice(0, end), mark };
}

/** Undefined where the template refuses texts with marks, such as an id that has to have nine characters. */
function renderedOr(template: ChatTemplate, conversation: Dict): string | undefined {
  try {
    return template.render(conversation);
  } catch {
    return undefined;
  }
}

function madeOfTexts(): SidaError {
  return invalid("The model's chat template makes control tokens of texts in the messages");
}

function invalid(message: string): SidaError {
  return new SidaError({ code: 'invalid_request', message, param: 'messages' });
}
