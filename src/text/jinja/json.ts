/** Reads JSON as Python does: whole numbers of any size, floats apart from them, keys in their order. */
import { Dict, type Value } from './values.js';

const SPACES = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?/y;
const TEXT = /"[^"\\]*(?:\\.[^"\\]*)*"/sy;
const WORD = /true|false|null/y;
const CONSTANTS: Record<string, boolean | null> = { true: true, false: false, null: null };
/** As Python's limit. */
const MOST_DIGITS = 4300;

/** Throws an Error for a text that is no JSON. Its shape has to be checked before: objects are read recursively. */
export function parseJson(json: string): Value {
  const reader = new Reader(json);
  const value = reader.value();
  reader.end();
  return value;
}

class Reader {
  readonly #json: string;
  #at = 0;

  constructor(json: string) {
    this.#json = json;
  }

  value(): Value {
    this.#match(SPACES);
    const first = this.#json[this.#at];
    if (first === '{') return new Dict(this.#items('}', () => this.#entry()));
    if (first === '[') return this.#items(']', () => this.value());
    if (first === '"') return this.#text();
    const word = this.#match(WORD);
    return word === undefined ? this.#number() : CONSTANTS[word]!;
  }

  end(): void {
    this.#match(SPACES);
    if (this.#at < this.#json.length) throw this.#fault();
  }

  #items<T>(close: string, read: () => T): T[] {
    const items: T[] = [];
    this.#at += 1;
    if (this.#skip(close)) return items;
    do items.push(read());
    while (this.#skip(','));
    if (!this.#skip(close)) throw this.#fault();
    return items;
  }

  #entry(): [Value, Value] {
    this.#match(SPACES);
    const key = this.#text();
    if (!this.#skip(':')) throw this.#fault();
    return [key, this.value()];
  }

  #text(): string {
    const quoted = this.#match(TEXT);
    if (quoted === undefined) throw this.#fault();
    return JSON.parse(quoted) as string;
  }

  #number(): bigint | number {
    NUMBER.lastIndex = this.#at;
    const match = NUMBER.exec(this.#json);
    if (match === null) throw this.#fault();
    const [text, fraction, exponent] = match;
    this.#at += text.length;
    if (fraction !== undefined || exponent !== undefined) return Number(text);
    if (text.length > MOST_DIGITS) throw new SyntaxError(`a number has more than ${MOST_DIGITS} digits`);
    return BigInt(text);
  }

  #skip(character: string): boolean {
    this.#match(SPACES);
    const found = this.#json[this.#at] === character;
    if (found) this.#at += 1;
    return found;
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const text = pattern.exec(this.#json)?.[0];
    this.#at += text?.length ?? 0;
    return text;
  }

  #fault(): Error {
    return new SyntaxError(`unexpected JSON at ${this.#at}`);
  }
}
