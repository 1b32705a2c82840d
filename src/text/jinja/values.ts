/** The values of templates: those of Python, as JavaScript values where these mean the same. */
import type { Budget } from './budget.js';

/** A `bigint` is Python's int, a `number` its float, an array its list. */
export type Value =
  | null
  | boolean
  | bigint
  | number
  | string
  | Value[]
  | Series
  | Dict
  | Attributes
  | Callable
  | Undefined;

/** A missing variable or attribute. Printing it gives nothing; most other uses fail, with the reason. */
export class Undefined {
  readonly why: string;

  constructor(why: string) {
    this.why = why;
  }
}

/** `null` is a value, which `??` would take for none. */
export function orUndefined(value: Value | undefined, why: () => string): Value {
  return value === undefined ? new Undefined(why()) : value;
}

/** A sequence that is no list. `generator` and `iterator` are read once. */
export class Series {
  readonly kind: SeriesKind;
  /** How a range was made. */
  readonly text: string;
  #items: readonly Value[];

  constructor(kind: SeriesKind, items: readonly Value[], text = '') {
    this.kind = kind;
    this.text = text;
    this.#items = items;
  }

  get once(): boolean {
    return this.kind === 'generator' || this.kind === 'iterator';
  }

  /** Whether items have places: `[0]` works. */
  get indexed(): boolean {
    return this.kind === 'tuple' || this.kind === 'range';
  }

  get size(): number {
    return this.#items.length;
  }

  get items(): readonly Value[] {
    const items = this.#items;
    if (this.once) this.#items = [];
    return items;
  }

  /** The first item, which a generator then no longer has. */
  next(): Value | undefined {
    const [first, ...rest] = this.#items;
    if (this.once) this.#items = rest;
    return first;
  }
}

type SeriesKind = 'tuple' | 'range' | 'dict_keys' | 'dict_values' | 'dict_items' | 'generator' | 'iterator';

/** Keys keep their order. Keys that are equal in Python are one key: `1`, `1.0` and `true`. */
export class Dict {
  readonly #entries = new Map<unknown, [key: Value, value: Value]>();

  constructor(entries: Iterable<readonly [Value, Value]> = []) {
    for (const [key, value] of entries) this.set(key, value);
  }

  get size(): number {
    return this.#entries.size;
  }

  get(key: Value): Value | undefined {
    return this.#entries.get(hashed(key))?.[1];
  }

  has(key: Value): boolean {
    return this.#entries.has(hashed(key));
  }

  set(key: Value, value: Value): void {
    const hash = hashed(key);
    const entry = this.#entries.get(hash);
    if (entry === undefined) this.#entries.set(hash, [key, value]);
    else entry[1] = value;
  }

  keys(): Value[] {
    return [...this.#entries.values()].map(([key]) => key);
  }

  values(): Value[] {
    return [...this.#entries.values()].map(([, value]) => value);
  }

  entries(): [Value, Value][] {
    return [...this.#entries.values()];
  }
}

/** An object with attributes: a namespace, `loop`, or what functions return. */
export class Attributes {
  readonly name: string;
  readonly values: Map<string, Value>;
  /** Calls the object itself. */
  readonly call: Callable['call'] | undefined;

  constructor(name: string, values: Iterable<[string, Value]>, call?: Callable['call']) {
    this.name = name;
    this.values = new Map(values);
    this.call = call;
  }
}

export type Named = ReadonlyMap<string, Value>;

export class Callable {
  readonly name: string;
  readonly call: (args: Value[], named: Named) => Value;

  constructor(name: string, call: (args: Value[], named: Named) => Value) {
    this.name = name;
    this.call = call;
  }
}

/** Begins the hash of a tuple. No valid text has half of a surrogate pair. */
const TUPLE = '\ud800';
const UNDEFINED = Symbol('undefined');

/** Equal for equal keys. Throws for a list and a dict, as Python does. */
export function hashed(key: Value): unknown {
  if (typeof key === 'boolean') return BigInt(key);
  if (typeof key === 'number') return Number.isInteger(key) ? BigInt(key) : key;
  if (key instanceof Undefined) return UNDEFINED;
  if (Array.isArray(key) || key instanceof Dict) throw new TypeError(`unhashable type: '${typeName(key)}'`);
  if (key instanceof Series && key.kind === 'tuple') return hashedTuple(key.items);
  return key;
}

/** Tuples within tuples may double their length at every level. */
const MOST_HASHED = 1 << 16;

function hashedTuple(items: readonly Value[]): string {
  let text = '';
  for (const item of items) {
    const hash = hashed(item);
    text += TUPLE + typeof hash + String(hash);
    if (text.length > MOST_HASHED) throw new Error(`a tuple that is a key is longer than ${MOST_HASHED}`);
  }
  return text === '' ? TUPLE : text;
}

export function typeName(value: Value): string {
  switch (typeof value) {
    case 'boolean':
      return 'bool';
    case 'bigint':
      return 'int';
    case 'number':
      return 'float';
    case 'string':
      return 'str';
  }
  if (value === null) return 'NoneType';
  if (Array.isArray(value)) return 'list';
  if (value instanceof Series) return value.kind;
  if (value instanceof Dict) return 'dict';
  if (value instanceof Undefined) return 'Undefined';
  return value instanceof Attributes ? value.name : 'function';
}

export function isTrue(value: Value): boolean {
  if (Array.isArray(value)) return value.length > 0;
  if (value instanceof Dict) return value.size > 0;
  if (value instanceof Series) return value.once || value.items.length > 0;
  return !(value instanceof Undefined) && (Number.isNaN(value) || Boolean(value));
}

/** The characters of a text as Python counts them. */
export function charactersOf(text: string): string[] {
  return [...text];
}

const HALVES = /[\ud800-\udfff]/;

export function textLength(text: string): number {
  return HALVES.test(text) ? charactersOf(text).length : text.length;
}

/** Undefined for a value that is not iterable. */
export function itemsOf(value: Value): readonly Value[] | undefined {
  if (Array.isArray(value)) return value;
  if (value instanceof Series) return value.items;
  if (value instanceof Dict) return value.keys();
  if (typeof value === 'string') return charactersOf(value);
  return value instanceof Undefined ? [] : undefined;
}

/** What reading the whole value takes. */
export function sizeOf(value: Value): number {
  if (typeof value === 'string' || Array.isArray(value)) return value.length;
  return value instanceof Dict || value instanceof Series ? value.size : 0;
}

export function iterate(value: Value, budget: Budget): readonly Value[] {
  const items = itemsOf(value);
  if (items === undefined) throw new TypeError(`'${typeName(value)}' object is not iterable`);
  budget.work(items.length);
  return items;
}

/** Python's `len`. Undefined for a value without one. */
export function lengthOf(value: Value): number | undefined {
  if (typeof value === 'string') return textLength(value);
  if (value instanceof Dict) return value.size;
  if (value instanceof Series) return value.once ? undefined : value.items.length;
  return Array.isArray(value) || value instanceof Undefined ? itemsOf(value)?.length : undefined;
}

export function isTuple(value: Value): value is Series {
  return value instanceof Series && value.kind === 'tuple';
}

export function tuple(...items: Value[]): Series {
  return new Series('tuple', items);
}

/** Converts a value of JSON. Whole numbers become ints. */
export function fromJs(value: unknown): Value {
  if (value === undefined) return new Undefined('the value is undefined');
  if (typeof value === 'number') return Number.isInteger(value) ? BigInt(value) : value;
  if (Array.isArray(value)) return value.map(fromJs);
  if (typeof value !== 'object' || value === null || isValue(value)) return value as Value;
  return new Dict(Object.entries(value).map(([key, each]) => [key, fromJs(each)]));
}

function isValue(value: object): boolean {
  return [Dict, Series, Attributes, Callable, Undefined].some((kind) => value instanceof kind);
}
