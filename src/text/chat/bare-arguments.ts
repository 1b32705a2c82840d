/** Reads arguments as Gemma 4 writes them: `{city:<|"|>Oslo<|"|>,days:[1,2]}`. JSON is read, too. */
import { type ArgumentsReader, begunAtEnd, parsed, pythonJson } from './call-arguments.js';

/** What ends a key or a value without quotation marks. */
const WORD_END = /[:,[\]{}]/;
const BLANK = /^[\s,]+/;

export class BareArguments implements ArgumentsReader {
  rest: string | undefined;
  readonly #quote: string;
  /** The mark behind the call. */
  readonly #end: string;
  #buffer = '';
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
    if (first === '{' || first === '[') {
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
    return missing + this.#closing;
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
    const at = this.#buffer.indexOf(mark);
    const end = this.#buffer.indexOf(this.#end);
    // The mark behind a call is a token that no text has: the text was left open.
    if (end >= 0 && (at < 0 || end < at)) {
      this.#text = undefined;
      return `${escaped(this.#take(end))}"`;
    }
    if (at >= 0) {
      this.#text = undefined;
      const text = this.#take(at);
      this.#take(mark.length);
      return `${escaped(text)}"`;
    }
    const begun = Math.max(begunAtEnd(this.#buffer, mark), begunAtEnd(this.#buffer, this.#end));
    const half = /[\ud800-\udbff]$/.test(this.#buffer) ? 1 : 0;
    const text = this.#take(this.#buffer.length - Math.max(begun, half));
    return text === '' ? undefined : escaped(text);
  }

  #readJsonText(): string | undefined {
    const whole = /^(?:[^"\\]|\\.)*"/s.exec(this.#buffer);
    if (whole === null) return undefined;
    this.#text = undefined;
    return this.#take(whole[0].length);
  }

  #readWord(): string | undefined {
    const at = this.#buffer.search(WORD_END);
    const end = this.#buffer.indexOf(this.#end);
    if (at < 0 && end < 0) return undefined;
    const length = at < 0 || (end >= 0 && end < at) ? end : at;
    const word = this.#buffer.slice(0, length).trim();
    const atKey = this.#atKey;
    const begun = this.#begin();
    this.#take(length);
    if (atKey) return begun + JSON.stringify(word);
    const value = parsed(word) === undefined ? pythonJson(word) : word;
    return begun + (value ?? JSON.stringify(word));
  }
}

function escaped(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}
