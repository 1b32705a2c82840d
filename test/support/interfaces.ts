/**
 * Reads the declarations of TypeScript files and checks values against them at run time. The compiler cannot check
 * the types of a native addon. Supports only the forms of declarations that src/native/ uses, and throws on any
 * other.
 */

export interface Member {
  name: string;
  optional: boolean;
  /** Type of the member. For a method, its return type. */
  type: string;
  method: boolean;
}

/** Descriptions of places where a value does not match its type, each with a path and the value found. */
export type Faults = string[];

const GLOBALS: Record<string, unknown> = {
  BigInt64Array,
  BigUint64Array,
  Float32Array,
  Float64Array,
  Int8Array,
  Int16Array,
  Int32Array,
  Uint16Array,
  Uint32Array,
  Uint8Array,
};

/** Splits at `separator` outside of brackets and texts. */
function split(text: string, separator: string): string[] {
  const parts: string[] = [];
  let [depth, begin] = [0, 0];
  for (let i = 0; i < text.length; i++) {
    const char = text[i]!;
    if (char === "'") i = text.indexOf("'", i + 1);
    else if ('([{<'.includes(char)) depth += 1;
    else if (')]}'.includes(char) || (char === '>' && text[i - 1] !== '=')) depth -= 1;
    else if (char === separator && depth === 0) {
      parts.push(text.slice(begin, i));
      begin = i + 1;
    }
  }
  return [...parts, text.slice(begin)].map((part) => part.trim()).filter((part) => part !== '');
}

/** The text between the bracket at `open` and its closing bracket. */
function inside(text: string, open: number): string {
  let depth = 0;
  for (let i = open; i < text.length; i++) {
    if ('([{'.includes(text[i]!)) depth += 1;
    else if (')]}'.includes(text[i]!)) depth -= 1;
    if (depth === 0) return text.slice(open + 1, i);
  }
  throw new Error(`Nothing closes ${text.slice(open, open + 40)}`);
}

function membersOf(body: string): Member[] {
  return split(body, ';').map((text) => {
    const [head, name, optional, kind] = /^(?:readonly )?(\w+)(\?)?(:|\()/.exec(text) ?? [];
    if (head === undefined) throw new Error(`No member of an interface: ${text}`);
    const at = head.length;
    const parameters = kind === '(' ? inside(text, at - 1).length : 0;
    const type = kind === '(' ? text.slice(at + parameters + 1).replace(/^\s*:/, '') : text.slice(at);
    return { name: name!, optional: optional === '?', type: type.trim(), method: kind === '(' };
  });
}

export class Interfaces {
  readonly #bodies = new Map<string, { body: string; bases: string[] }>();
  readonly #aliases = new Map<string, string>();
  readonly #constants: Record<string, unknown>;

  /** `constants` holds the values of the constants that the sources export with `as const`. */
  constructor(sources: readonly string[], constants: Record<string, unknown>) {
    this.#constants = constants;
    for (const source of sources) {
      const text = source
        .replace(/\/\*.*?\*\//gs, ' ')
        .replace(/\/\/.*/g, ' ')
        .replace(/\s+/g, ' ');
      for (const match of text.matchAll(/export interface (\w+)(?: extends ([\w, ]+))? \{/g)) {
        const body = inside(text, match.index + match[0].length - 1);
        this.#bodies.set(match[1]!, { body, bases: split(match[2] ?? '', ',') });
      }
      for (const match of text.matchAll(/export type (\w+) = ([^;]+);/g))
        this.#aliases.set(match[1]!, match[2]!);
    }
  }

  /** The members of an interface, including its bases, of `{…}`, or of an intersection of them. */
  members(type: string): Member[] {
    const parts = split(type, '&');
    if (parts.length > 1) return parts.flatMap((part) => this.members(part));
    if (type.startsWith('{')) return membersOf(inside(type, 0));
    const found = this.#bodies.get(type);
    if (found === undefined) throw new Error(`No interface ${type}`);
    return [...found.bases.flatMap((base) => this.members(base)), ...membersOf(found.body)];
  }

  /** The return type of a method. */
  result(type: string, method: string): string {
    return this.members(type).find(({ name }) => name === method)!.type;
  }

  /** The string values that a type allows. */
  words(type: string): string[] {
    const values = split(this.#aliases.get(type) ?? type, '|').flatMap((part) => {
      const literal = /^'(.*)'$/.exec(part);
      return literal === null ? this.#listOf(part) : [literal[1]!];
    });
    return values as string[];
  }

  faults(value: unknown, type: string, path = 'value'): Faults {
    const options = split(type, '|');
    if (options.length > 1) {
      const all = options.map((option) => this.faults(value, option, path));
      return all.some(({ length }) => length === 0) ? [] : all.flat();
    }
    const is = (right: boolean) => (right ? [] : [`${path} is ${describe(value)}, not ${type}`]);
    const plain = type.replace(/^readonly /, '');
    if (plain.endsWith('[]')) return this.#elements(value, plain.slice(0, -2), path);
    if (plain.startsWith('[')) {
      const types = split(inside(plain, 0), ',');
      if (!Array.isArray(value) || value.length !== types.length) return is(false);
      return types.flatMap((each, i) => this.faults(value[i], each, `${path}[${i}]`));
    }
    if (plain === 'null') return is(value === null);
    if (plain.startsWith("'")) return is(value === plain.slice(1, -1));
    if (['number', 'bigint', 'string', 'boolean'].includes(plain)) return is(typeof value === plain);
    if (plain.startsWith('new (')) return is(typeof value === 'function');
    if (plain in GLOBALS) return is(value instanceof (GLOBALS[plain] as typeof Uint8Array));
    if (plain.startsWith('typeof ')) return is(same(value, this.#constants[plain.slice(7)]));
    if (plain.startsWith('(typeof ')) return is(this.#listOf(plain).includes(value));
    const of = /^Record<string, (.*)>$/.exec(plain)?.[1];
    if (of !== undefined)
      return Object.entries(value ?? {}).flatMap(([k, v]) => this.faults(v, of, `${path}.${k}`));
    const alias = this.#aliases.get(plain);
    return alias === undefined ? this.#object(value, plain, path) : this.faults(value, alias, path);
  }

  #elements(value: unknown, type: string, path: string): Faults {
    const element = type.startsWith('(') ? inside(type, 0) : type;
    if (!Array.isArray(value)) return [`${path} is ${describe(value)}, not a list`];
    return value.flatMap((each, i) => this.faults(each, element, `${path}[${i}]`));
  }

  #object(value: unknown, type: string, path: string): Faults {
    if (typeof value !== 'object' || value === null) return [`${path} is ${describe(value)}, not ${type}`];
    const members = this.members(type);
    const known = new Set(members.map(({ name }) => name));
    const own = value as Record<string, unknown>;
    const unknown = Object.keys(own).filter((name) => !known.has(name));
    return [
      ...unknown.map((name) => `${path}.${name} is not in the type`),
      ...members.flatMap(({ name, optional, type: wanted, method }) => {
        if (own[name] === undefined) return optional ? [] : [`${path}.${name} is missing`];
        if (method) return typeof own[name] === 'function' ? [] : [`${path}.${name} is no function`];
        return this.faults(own[name], wanted, `${path}.${name}`);
      }),
    ];
  }

  /** The list that `(typeof NAME)[number]` refers to. */
  #listOf(type: string): unknown[] {
    const name = /^\(typeof (\w+)\)\[number\]$/.exec(type)?.[1];
    const list = name === undefined ? undefined : this.#constants[name];
    if (Array.isArray(list)) return list;
    throw new Error(`A form of type that is not known: ${type}`);
  }
}

function same(value: unknown, expected: unknown): boolean {
  return JSON.stringify(value) === JSON.stringify(expected);
}

function describe(value: unknown): string {
  return typeof value === 'object' && value !== null
    ? value.constructor.name
    : (JSON.stringify(value) ?? 'undefined');
}

/** Wraps an object and records the names of the properties that are read. */
export function watched<T extends object>(object: T): { object: T; asked: Set<string> } {
  const asked = new Set<string>();
  const get = (target: T, name: string | symbol): unknown => {
    if (typeof name === 'string') asked.add(name);
    return Reflect.get(target, name);
  };
  return { object: new Proxy(object, { get }), asked };
}
