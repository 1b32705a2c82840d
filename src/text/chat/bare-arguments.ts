/** Reads arguments as Gemma 4 writes them: `{city:<|"|>Oslo<|"|>,days:[1,2]}`. JSON is read, too. */
import { escapePattern } from '../escape-pattern.js';
import { type ArgumentsReader, begunAtEnd, LONGEST_MARK, parsed, pythonJson } from './call-arguments.js';

// biome-ignore lint/suspicious/noControlCharactersInRegex: JSON writes them as escapes
const CARE = /["\\\u0000-\u001f]/;
const BLANK = /^[\s,]+/;

export class BareArguments implements ArgumentsReader {
  rest: string | undefined;
  readonly #quote: string;
  /** The mark behind the call. */
  readonly #end: string;
  /** What ends a key or a value without quotation marks, and a text between marks. */
  readonly #wordEnd: RegExp;
  readonly #textEnd: RegExp;
  #buffer = '';
  /** Characters of the buffer in which the end of a word is not. */
  #searched = 0;
  #begun = false;
  /** Brackets that close what is open, the innermost first. */
  #closing = '';
  /** What comes next in the innermost object or list. */
  #next: 'first' | 'more' | 'value' = 'first';
  /** Behind a key and before its colon. */
  #afterKey = false;
  /** The mark behind the text that is open. */
  #text: string | undefined;

  constructor(quote: string, end: string) {
    this.#quote = quote;
    this.#end = end;
    this.#wordEnd = new RegExp(`[:,[\\]{}]|${escapePattern(end)}`, 'g');
    this.#textEnd = new RegExp(`${escapePattern(quote)}|${escapePattern(end)}`, 'g');
  }

  push(text: string): string {
    this.#buffer += text;
    let found = '';
    for (let more: string | undefined = ''; more !== undefined; more = this.#step()) found += more;
    return found;
  }

  finish(): string {
    return '';
  }

  /** Returns more JSON, or undefined where more text is needed. */
  #step(): string | undefined {
    if (this.rest !== undefined) return undefined;
    if (this.#text !== undefined) return this.#readText(this.#text);
    this.#buffer = this.#buffer.replace(BLANK, '');
    const given = this.#buffer;
    if (given === '') return undefined;
    if (given.startsWith(this.#end)) return this.#endAll();
    if (this.#afterKey) {
      this.#afterKey = false;
      this.#take(given[0] === ':' ? 1 : 0);
      this.#next = 'value';
      return ': ';
    }
    const [first] = given;
    // Arguments are an object.
    if (!this.#begun && first !== '{') return this.#drop();
    if (first === '{' || first === '[') {
      if (this.#begun && this.#atKey) return this.#drop();
      this.#begun = true;
      this.#take(1);
      const begun = this.#before() + first;
      this.#closing = (first === '{' ? '}' : ']') + this.#closing;
      this.#next = 'first';
      return begun;
    }
    if (first === '}' || first === ']') return this.#close();
    if (first === ':') return this.#drop();
    for (const mark of [this.#quote, '"']) {
      if (given.startsWith(mark)) return this.#beginText(mark);
    }
    // The beginning of a mark of several characters.
    if ([this.#quote, this.#end].some((mark) => mark.startsWith(given))) return undefined;
    return this.#readWord();
  }

  #take(length: number): string {
    const text = this.#buffer.slice(0, length);
    this.#buffer = this.#buffer.slice(length);
    this.#searched = 0;
    return text;
  }

  #drop(): string {
    this.#take(1);
    return '';
  }

  get #atKey(): boolean {
    return this.#closing[0] === '}' && this.#next !== 'value';
  }

  /** What separates the next part from the one before it. */
  #before(): string {
    const separator = this.#next === 'more' ? ', ' : '';
    this.#next = 'more';
    return separator;
  }

  #close(): string {
    const missing = this.#next === 'value' ? 'null' : '';
    this.#take(1);
    const closed = missing + this.#closing[0]!;
    this.#closing = this.#closing.slice(1);
    this.#next = 'more';
    if (this.#closing === '') this.rest = this.#buffer;
    return closed;
  }

  /** The call ends before its arguments do. */
  #endAll(): string {
    const missing = this.#afterKey ? ': null' : this.#next === 'value' ? 'null' : '';
    this.rest = this.#buffer;
    return this.#begun ? missing + this.#closing : '{}';
  }

  #beginText(mark: string): string {
    const begun = `${this.#begin()}"`;
    this.#take(mark.length);
    this.#text = mark;
    return begun;
  }

  /** Begins a key or a value. */
  #begin(): string {
    const atKey = this.#atKey;
    const separator = this.#before();
    this.#afterKey = atKey;
    return separator;
  }

  #readText(mark: string): string | undefined {
    if (mark === '"') return this.#readJsonText();
    // The mark behind a call is a token that no text has: a text that it ends was left open.
    const found = this.#find(this.#textEnd);
    if (found !== undefined) {
      this.#text = undefined;
      const text = this.#take(found.index);
      if (found[0] === mark) this.#take(mark.length);
      return `${escaped(text)}"`;
    }
    const begun = Math.max(begunAtEnd(this.#buffer, mark), begunAtEnd(this.#buffer, this.#end));
    const half = /[\ud800-\udbff]$/.test(this.#buffer) ? 1 : 0;
    const text = this.#take(this.#buffer.length - Math.max(begun, half));
    return text === '' ? undefined : escaped(text);
  }

  /** A text of JSON up to a character that needs care, or that character. */
  #readJsonText(): string | undefined {
    if (this.#buffer === '') return undefined;
    const at = this.#buffer.search(CARE);
    if (at !== 0) return this.#take(at < 0 ? this.#buffer.length : at);
    const escaping = /^\\(?:["\\/bfnrt]|u[\da-fA-F]{4})/.exec(this.#buffer);
    if (escaping !== null) return this.#take(escaping[0].length);
    if (/^\\(?:u[\da-fA-F]{0,3})?$/.test(this.#buffer)) return undefined;
    const character = this.#take(1);
    if (character !== '"') return escaped(character);
    this.#text = undefined;
    return character;
  }

  #readWord(): string | undefined {
    const found = this.#find(this.#wordEnd);
    if (found === undefined) return undefined;
    const atKey = this.#atKey;
    const begun = this.#begin();
    const word = this.#take(found.index).trim();
    if (atKey) return begun + JSON.stringify(word);
    const value = parsed(word) === undefined ? pythonJson(word) : word;
    return begun + (value ?? JSON.stringify(word));
  }

  /** What was searched before is not searched again, since a word may come in many pieces. */
  #find(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = Math.max(0, this.#searched - LONGEST_MARK);
    const found = pattern.exec(this.#buffer) ?? undefined;
    this.#searched = found === undefined ? this.#buffer.length : 0;
    return found;
  }
}

function escaped(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}
