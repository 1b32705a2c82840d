/** Reads the arguments of a tool call while they arrive, and gives them as JSON: written so, or as pairs in tags. */
import { escapePattern } from '../escape-pattern.js';
import { exactJson, parseExactly } from '../exact-json.js';
import { beginsOf, type CallForm, type PairMarks } from './call-forms.js';

export interface ArgumentsReader {
  /** Returns the JSON that became certain with this text. */
  push(text: string): string;
  /** Returns the rest. Call it when no text follows. */
  finish(): string;
  /** The text behind the arguments, once they have ended. */
  readonly rest: string | undefined;
}

/** Finds the end of a JSON text, list or object. */
export class JsonScan {
  /** Brackets that close what is open, the innermost first. */
  closing = '';
  /** Most brackets that were open at once. */
  deepest = 0;
  inText = false;
  #escaped = false;

  /** Returns the length of the text that belongs to the value if the value ends in it. */
  push(text: string): number | undefined {
    for (let at = 0; at < text.length; at += 1) {
      const character = text[at]!;
      if (this.#escaped) this.#escaped = false;
      else if (this.inText && character === '\\') this.#escaped = true;
      else if (character === '"') this.inText = !this.inText;
      else if (this.inText) continue;
      else if (character === '{' || character === '[') {
        this.closing = `${character === '{' ? '}' : ']'}${this.closing}`;
        this.deepest = Math.max(this.deepest, this.closing.length);
      } else if (character === '}' || character === ']') this.closing = this.closing.slice(1);
      else continue;
      if (this.closing === '' && !this.inText) return at + 1;
    }
    return undefined;
  }
}

export class JsonArguments implements ArgumentsReader {
  rest: string | undefined;
  /** The mark behind the call; may be empty. */
  readonly #end: string;
  readonly #scan = new JsonScan();
  #buffer = '';
  /** A value that is no object, which is converted at its end. */
  #held: string[] | undefined;
  #last = '';

  constructor(end: string) {
    this.#end = end;
  }

  push(text: string): string {
    const begins = this.#last === '' && this.#buffer === '';
    this.#buffer += begins ? text.trimStart() : text;
    if (begins && this.#buffer !== '' && this.#buffer[0] !== '{') this.#held = [];
    let found = '';
    while (this.rest === undefined) {
      const at = this.#end === '' ? -1 : this.#buffer.indexOf(this.#end);
      found += this.#take(at < 0 ? this.#buffer.length - begunAtEnd(this.#buffer, this.#end) : at);
      if (at < 0 || this.rest !== undefined) break;
      // A text of JSON may hold the mark. A line break is none of its characters, and stands before the mark.
      if (this.#scan.inText && this.#last !== '\n') found += this.#take(this.#end.length);
      else {
        if (!this.#scan.inText) found += this.#scan.closing;
        this.rest = this.#buffer;
      }
    }
    if (this.#held === undefined) return found;
    this.#held.push(found);
    if (this.rest === undefined) return '';
    const held = this.#held.join('');
    // Models leave out the object of no arguments, within a fence too.
    if (/^[\s`]*$/.test(held)) return '{}';
    return argumentsJson(parsed(held) ?? held);
  }

  finish(): string {
    return '';
  }

  #take(length: number): string {
    const text = this.#buffer.slice(0, length);
    const end = this.#scan.push(text);
    const own = text.slice(0, end);
    this.#buffer = this.#buffer.slice(own.length);
    this.#last = own.at(-1) ?? this.#last;
    if (end !== undefined) this.rest = this.#buffer;
    return own;
  }
}

/** The end of a text that may belong to a mark or to a character that follows. */
const UNCERTAIN = /(?:[\ud800-\udbff]|\n?(?:<[^<]{0,64}){0,2})$/;

/** Longer names of keys do not end a value whose end is missing, since a stream cannot hold back so much text. */
const LONGEST_NEXT_KEY = 50;

/** Most characters of a mark. Each piece of text is searched again from so many characters before it. */
export const LONGEST_MARK = 64;
const LONGEST_KEY = 4096;

export class PairArguments implements ArgumentsReader {
  rest: string | undefined;
  /** Types of each argument. */
  readonly #types: Readonly<Record<string, readonly string[]>>;
  readonly #marks: PairMarks;
  /** What may follow a pair. */
  readonly #next: RegExp;
  /** Between a key and its value. */
  readonly #middle: RegExp;
  /** Behind a value: its own mark, or, where models leave it out, the next key, or all that ends a call. */
  readonly #close: RegExp;
  readonly #ending: string;
  /** The end of a call as the last text of an answer. */
  readonly #lastEnd: RegExp;
  #buffer = '';
  #state: 'between' | 'value begins' | 'value' | 'key' = 'between';
  #key = '';
  /** Of a value that is converted at its end. */
  readonly #value: string[] = [];
  #begun = false;

  constructor(
    form: CallForm & { pairs: PairMarks },
    types: Readonly<Record<string, readonly string[]>> = {},
  ) {
    const { pairs, end, afterArguments } = form;
    this.#types = types;
    this.#marks = pairs;
    const last = afterArguments === '' ? [] : [afterArguments.trim()];
    const next = [pairs.keyBegin, ...last, end, ...beginsOf(form)];
    this.#next = new RegExp(next.map(escapePattern).join('|'));
    this.#middle = new RegExp(
      `${escapePattern(pairs.keyEnd.trim())}\\s*?${escapePattern(pairs.valueBegin.trim())}`,
    );
    this.#ending = afterArguments.trim() + end;
    const names = Object.keys(types).filter(({ length }) => length <= LONGEST_NEXT_KEY);
    const anyName = `[^\\s<>]{1,${LONGEST_NEXT_KEY}}`;
    const name = names.length > 0 ? `(?:${names.map(escapePattern).join('|')})` : anyName;
    const own = [pairs.keyBegin, pairs.keyEnd.trim()].map(escapePattern);
    const nextKey = `(?<=\\n)${own.join(name)}`;
    const ends = escapePattern(this.#ending);
    const whole = last.map((mark) => `${escapePattern(mark)}\\s*${escapePattern(end)}`);
    const nextCall = `${ends}(?=\\s{0,20}${escapePattern(form.begin)})`;
    this.#close = new RegExp([escapePattern(pairs.valueEnd.trim()), ...whole, nextKey, nextCall].join('|'));
    this.#lastEnd = new RegExp(`${ends}\\s*$`);
  }

  push(text: string): string {
    this.#buffer += text;
    let found = this.#begun ? '' : '{';
    this.#begun = true;
    for (let more: string | undefined = ''; more !== undefined; more = this.#step()) found += more;
    return found;
  }

  finish(): string {
    const last = this.#state === 'value' ? this.#lastEnd.exec(this.#buffer) : null;
    if (last !== null) return `${this.#endValue(this.#buffer.slice(0, last.index))}}`;
    const rest = this.#buffer.replace(/\s/g, '');
    const ended =
      this.#state === 'between' && (rest === '' || (rest !== '<' && this.#ending.startsWith(rest)));
    return ended && this.rest === undefined ? '}' : '';
  }

  /** Returns more JSON, or undefined where more text is needed. */
  #step(): string | undefined {
    if (this.rest !== undefined) return undefined;
    if (this.#state === 'between') return this.#between();
    if (this.#state === 'key') return this.#readKey();
    if (this.#state === 'value begins') return this.#beginValue();
    return this.#readValue();
  }

  #between(): string | undefined {
    const mark = this.#next.exec(this.#buffer);
    if (mark === null) this.#buffer = this.#buffer.slice(-LONGEST_MARK);
    if (mark === null) return undefined;
    const isKey = mark[0] === this.#marks.keyBegin;
    this.#buffer = this.#buffer.slice(mark.index + (isKey ? mark[0].length : 0));
    if (isKey) {
      this.#state = 'key';
      return '';
    }
    this.rest = this.#buffer;
    return '}';
  }

  #readKey(): string | undefined {
    const mark = this.#middle.exec(this.#buffer);
    if (mark === null) this.#buffer = this.#buffer.slice(0, LONGEST_KEY);
    if (mark === null) return undefined;
    const before = this.#key === '' ? '' : ', ';
    this.#key = this.#buffer.slice(0, mark.index).trim();
    this.#buffer = this.#buffer.slice(mark.index + mark[0].length);
    this.#state = 'value begins';
    return `${before}${JSON.stringify(this.#key)}: `;
  }

  #beginValue(): string | undefined {
    if (this.#buffer === '') return undefined;
    if (/\s$/.test(this.#marks.valueBegin)) this.#buffer = this.#buffer.replace(/^\n/, '');
    this.#state = 'value';
    return this.#isText ? '"' : '';
  }

  #readValue(): string | undefined {
    const mark = this.#close.exec(this.#buffer);
    const end = mark?.index ?? UNCERTAIN.exec(this.#buffer)!.index;
    const own = this.#buffer.slice(0, end);
    if (mark === null) {
      this.#buffer = this.#buffer.slice(end);
      if (own === '') return undefined;
      if (this.#isText) return JSON.stringify(own).slice(1, -1);
      this.#value.push(own);
      return '';
    }
    const marked = mark[0] === this.#marks.valueEnd.trim() ? mark[0].length : 0;
    this.#buffer = this.#buffer.slice(mark.index + marked);
    return this.#endValue(own);
  }

  /** The end of the value, behind which a mark stands. */
  #endValue(given: string): string {
    this.#state = 'between';
    const own = /^\s/.test(this.#marks.valueEnd) ? given.replace(/\n$/, '') : given;
    if (this.#isText) return `${JSON.stringify(own).slice(1, -1)}"`;
    const value = this.#value.splice(0).join('') + own;
    return valueJson(value, this.#known ? this.#types[this.#key] : undefined);
  }

  get #known(): boolean {
    return Object.hasOwn(this.#types, this.#key);
  }

  get #isText(): boolean {
    return this.#known && this.#types[this.#key]!.every((type) => type === 'string');
  }
}

const PYTHON: Record<string, string> = { True: 'true', False: 'false', None: 'null' };
const PYTHON_PARTS = /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\b(?:True|False|None)\b/gs;

/** The JSON of a value of Python: templates that write values so make models write them. Undefined for other texts. */
export function pythonJson(text: string): string | undefined {
  const json = text.replace(PYTHON_PARTS, (part) => {
    if (!part.startsWith("'")) return PYTHON[part] ?? part;
    const inner = part.slice(1, -1).replace(/\\.|"/gs, (each) => ({ '"': '\\"', "\\'": "'" })[each] ?? each);
    return `"${inner}"`;
  });
  return parsed(json) === undefined ? undefined : json;
}

/** A value in tags, which are around texts and around JSON alike. */
function valueJson(given: string, types: readonly string[] | undefined): string {
  const trimmed = given.trim();
  const json = parsed(trimmed) === undefined && types !== undefined ? pythonJson(trimmed) : trimmed;
  const value = json === undefined ? undefined : parsed(json);
  const type = value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value;
  const fits =
    types === undefined || !types.includes('string') || (type !== 'string' && types.includes(type));
  return json !== undefined && value !== undefined && fits ? json : JSON.stringify(given);
}

/** Arguments as JSON. Some models write the JSON of an object as a text. */
export function argumentsJson(given: unknown): string {
  const object = typeof given === 'string' ? parsed(given) : undefined;
  const isObject = typeof object === 'object' && object !== null;
  return isObject ? (given as string) : exactJson(given);
}

/** The value, with its digits for `exactJson`. Undefined for a text that is no JSON. */
export function parsed(json: string): unknown {
  try {
    return parseExactly(json);
  } catch {
    return undefined;
  }
}

/** Characters at the end of the text that begin the mark. */
export function begunAtEnd(text: string, mark: string): number {
  for (let length = Math.min(mark.length - 1, text.length); length > 0; length -= 1) {
    if (text.endsWith(mark.slice(0, length))) return length;
  }
  return 0;
}

/** Leaves out a character at the end that the answer has only in part. */
export function withoutPart(text: string): string {
  return text.replace(/\ufffd+$/, '');
}
