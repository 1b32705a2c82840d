/** Reads values of a GGUF file's metadata, each of the type that its key must have. */
import { SidaError } from '../../errors.js';
import type { GgufValue } from '../../native/addon-types.js';
import { oneLine } from '../../text/one-line.js';

export class Metadata {
  readonly #values: Readonly<Record<string, GgufValue>>;
  readonly #file: string;

  /** `file` names the GGUF file in errors. */
  constructor(values: Readonly<Record<string, GgufValue>>, file: string) {
    this.#values = values;
    this.#file = file;
  }

  get keys(): string[] {
    return Object.keys(this.#values);
  }

  /** The methods below return undefined for a key that is not there, and throw checkpoint_invalid for another type. */
  text(key: string): string | undefined {
    return this.#typed(key, 'a text of UTF-8', (value) => (typeof value === 'string' ? value : undefined));
  }

  flag(key: string): boolean | undefined {
    return this.#typed(key, 'true or false', (value) => (typeof value === 'boolean' ? value : undefined));
  }

  whole(key: string): number | undefined {
    return this.#typed(key, 'a whole number from 0', (value) => {
      const number = typeof value === 'bigint' ? Number(value) : value;
      return typeof number === 'number' && Number.isSafeInteger(number) && number >= 0 ? number : undefined;
    });
  }

  /** Whether a number is -1, as converters write what their model does not have. */
  isUnset(key: string): boolean {
    const value = this.#values[key];
    return value === -1 || value === -1n || value === 0xffff_ffff;
  }

  /** A text that is no UTF-8 is undefined. */
  texts(key: string): readonly (string | undefined)[] | undefined {
    return this.#typed(key, 'a list of texts', (value) => {
      if (!Array.isArray(value) || value.some((one) => typeof one === 'boolean')) return undefined;
      return value.map((one) => (typeof one === 'string' ? one : undefined));
    });
  }

  numbers(key: string): ArrayLike<number> | undefined {
    return this.#typed(key, 'a list of numbers', (value) => {
      if (Array.isArray(value)) return value.length === 0 ? [] : undefined;
      const is64 = value instanceof BigUint64Array || value instanceof BigInt64Array;
      return ArrayBuffer.isView(value) && !is64 ? value : undefined;
    });
  }

  /** An error that names the file and the key. */
  fault(key: string, message: string): SidaError {
    return new SidaError({ code: 'checkpoint_invalid', message: `${this.#file}: ${key}: ${message}` });
  }

  #typed<T>(key: string, expected: string, read: (value: GgufValue) => T | undefined): T | undefined {
    if (!Object.hasOwn(this.#values, key)) return undefined;
    const value = this.#values[key]!;
    const found = read(value);
    if (found === undefined) throw this.fault(key, `expected ${expected}, found ${described(value)}`);
    return found;
  }
}

function described(value: GgufValue): string {
  if (typeof value === 'string') return `the text ${JSON.stringify(oneLine(value, 64))}`;
  if (typeof value === 'object') return `a list of ${value.length}`;
  return String(value);
}
