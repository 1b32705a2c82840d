/** Reads JSON and leaves to its subclass what values become. */

const SPACES = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?/y;
const TEXT = /"[^"\\]*(?:\\.[^"\\]*)*"/sy;
const WORD = /true|false|null/y;
const CONSTANTS: Record<string, boolean | null> = { true: true, false: false, null: null };

/** Reads recursively: the depth of a text has to be checked before. */
export abstract class JsonReader<T> {
  protected readonly json: string;
  #at = 0;

  constructor(json: string) {
    this.json = json;
  }

  protected abstract constant(value: boolean | null | string): T;
  protected abstract number(text: string): T;
  /** The text of the list or the object is `json` from `from` to `to`. */
  protected abstract list(items: T[], from: number, to: number): T;
  protected abstract object(entries: [key: string, value: T][], from: number, to: number): T;

  /** Throws an Error for a text that is no JSON. */
  read(): T {
    const value = this.#value();
    this.#match(SPACES);
    if (this.#at < this.json.length) throw this.#fault();
    return value;
  }

  #value(): T {
    this.#match(SPACES);
    const from = this.#at;
    const first = this.json[from];
    if (first === '{') {
      const entries = this.#items('}', () => this.#entry());
      return this.object(entries, from, this.#at);
    }
    if (first === '[') {
      const items = this.#items(']', () => this.#value());
      return this.list(items, from, this.#at);
    }
    if (first === '"') return this.constant(this.#text());
    const word = this.#match(WORD);
    if (word !== undefined) return this.constant(CONSTANTS[word]!);
    const number = this.#match(NUMBER);
    if (number === undefined) throw this.#fault();
    return this.number(number);
  }

  #items<I>(close: string, read: () => I): I[] {
    const items: I[] = [];
    this.#at += 1;
    if (this.#skip(close)) return items;
    do items.push(read());
    while (this.#skip(','));
    if (!this.#skip(close)) throw this.#fault();
    return items;
  }

  #entry(): [string, T] {
    this.#match(SPACES);
    const key = this.#text();
    if (!this.#skip(':')) throw this.#fault();
    return [key, this.#value()];
  }

  #text(): string {
    const quoted = this.#match(TEXT);
    if (quoted === undefined) throw this.#fault();
    return JSON.parse(quoted) as string;
  }

  #skip(character: string): boolean {
    this.#match(SPACES);
    const found = this.json[this.#at] === character;
    if (found) this.#at += 1;
    return found;
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const text = pattern.exec(this.json)?.[0];
    this.#at += text?.length ?? 0;
    return text;
  }

  #fault(): Error {
    return new SyntaxError(`unexpected JSON at ${this.#at}`);
  }
}
