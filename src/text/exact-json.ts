/** Keeps what JavaScript's objects lose of JSON: the digits of numbers, and the order of keys such as "10". */
import { JsonReader } from './json-reader.js';

/** The JSON of lists and objects that have such numbers or keys. */
const sources = new WeakMap<object, string>();

/** Finds numbers that JavaScript may write in another way, and keys that it sorts. Texts may have some, too. */
const LOSES = /[[:,]\s*-?(?:\d*\.?\d{16}|\d*\.\d*0[\s,\]}]|[\d.]+[eE]|0\.0{6})|[[:,]\s*-0|"\d+"\s*:/;

/** What becomes of whole numbers beyond 53 bits, by their key. */
type LongNumbers = Readonly<Record<string, (digits: string) => number>>;

/** `JSON.parse`, after which `exactJson` gives the digits and the order of the text. */
export function parseExactly(json: string, longNumbers: LongNumbers = {}): unknown {
  const value: unknown = JSON.parse(json);
  return LOSES.test(json) ? new ExactReader(json, longNumbers).read().value : value;
}

/** The JSON of a list or an object that has such numbers or keys. */
export function sourceOf(value: object): string | undefined {
  return sources.get(value);
}

/** `JSON.stringify`, with the digits and the order of what `parseExactly` read. */
export function exactJson(value: unknown): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const source = sources.get(value);
  if (source !== undefined) return source;
  if (Array.isArray(value)) {
    // Lists of numbers are long.
    const plain = value.every((each) => typeof each !== 'object' || each === null);
    return plain ? JSON.stringify(value) : `[${value.map((each) => exactJson(each ?? null)).join(',')}]`;
  }
  const entries = Object.entries(value).filter(([, each]) => each !== undefined);
  return `{${entries.map(([key, each]) => `${JSON.stringify(key)}:${exactJson(each)}`).join(',')}}`;
}

interface Read {
  value: unknown;
  /** Whether it is a number that JavaScript would write in another way. */
  loses: boolean;
  /** Of a whole number beyond 53 bits. */
  digits?: string;
}

class ExactReader extends JsonReader<Read> {
  readonly #longNumbers: LongNumbers;

  constructor(json: string, longNumbers: LongNumbers) {
    super(json);
    this.#longNumbers = longNumbers;
  }

  protected constant(value: boolean | null | string): Read {
    return { value, loses: false };
  }

  protected number(text: string): Read {
    const value = Number(text);
    const long = /^-?\d+$/.test(text) && !Number.isSafeInteger(value);
    return { value, loses: JSON.stringify(value) !== text, ...(long && { digits: text }) };
  }

  protected list(items: Read[], from: number, to: number): Read {
    const value = items.map((item) => item.value);
    if (items.some(({ loses }) => loses)) sources.set(value, this.json.slice(from, to));
    return { value, loses: false };
  }

  protected object(entries: [string, Read][], from: number, to: number): Read {
    const kept = (key: string, { value, digits }: Read) =>
      digits !== undefined && Object.hasOwn(this.#longNumbers, key) ? this.#longNumbers[key]!(digits) : value;
    const value = Object.fromEntries(entries.map(([key, item]) => [key, kept(key, item)]));
    const loses = entries.some(([key, item]) => item.loses || /^\d+$/.test(key));
    if (loses) sources.set(value, this.json.slice(from, to));
    return { value, loses: false };
  }
}
