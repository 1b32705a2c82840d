/**
 * Reads the JSON schemas that clients send: writes them in the keywords that the library follows, gives values that it
 * would let through wrongly a body of our own, and refuses by name what no grammar can follow.
 */
import { SidaError } from '../errors.js';
import { checkApart, isOfType, isSchema, type Schema, VALUES } from './alternatives.js';
import { type Bound, INTEGER, NUMBER, numbersWithin } from './json-numbers.js';
import { escapedText, literal, type Rules, textOfLength, textOfPattern } from './json-strings.js';
import { STRING_FORMATS } from './string-formats.js';

type Path = readonly string[];

const MOST_CHARACTERS = 128 << 10;
const MOST_SCHEMAS = 2_000;
/** Schemas within each other, also by references: the library reads them recursively. */
const MOST_LEVELS = 48;
/** Characters or items that a bound may name. */
const MOST_REPEATS = 1_000;

/** Keywords that bind nothing. */
const NOTES = new Set(
  (
    '$schema $id id $anchor $comment $defs definitions title description default deprecated discriminator example ' +
    'examples readOnly writeOnly contentEncoding contentMediaType'
  ).split(' '),
);
/** Keywords beside which no other may stand, but `type` beside constants. */
const ALONE = ['$ref', 'enum', 'const', 'anyOf', 'oneOf'];
const BOUNDS = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'];
const KEYWORDS: Record<string, readonly string[]> = {
  string: ['minLength', 'maxLength', 'pattern'],
  number: BOUNDS,
  integer: BOUNDS,
  boolean: [],
  null: [],
  object: ['properties', 'required', 'additionalProperties'],
  array: ['items', 'prefixItems', 'additionalItems', 'minItems', 'maxItems'],
};

function refuse(path: Path, why: string): never {
  const where = path.length === 0 ? '' : ` at ${path.join('.').slice(0, 200)}`;
  throw new Error(`The JSON schema${where} cannot be used: ${why}`);
}

function shown(value: unknown): string {
  return (JSON.stringify(value) ?? 'nothing').slice(0, 60);
}

interface SchemaOptions {
  /** Whether objects have no other properties than those that the schema names, where it does not say. */
  closed: boolean;
  /** Whether all values must be objects. */
  objects?: boolean;
}

/** The schema as text. Throws invalid_request, which names the place within `param`. */
export function checkedSchema(schema: unknown, param: string, options: SchemaOptions): string {
  try {
    const text = JSON.stringify(schema) ?? '';
    if (text.length > MOST_CHARACTERS)
      refuse([], `it has ${text.length} characters; the limit is ${MOST_CHARACTERS}`);
    readSchema(schema, options);
    return text;
  } catch (error) {
    const message =
      error instanceof RangeError ? 'The JSON schema is nested too deep' : (error as Error).message;
    throw new SidaError({ code: 'invalid_request', message, param });
  }
}

export interface ReadSchema {
  /** For the library. */
  schema: Schema;
  /** EBNF of the values for which the schema has a number, their place in the list. Throws Errors with the reason. */
  bodies: (rules: Rules) => string[];
  /** Properties beside which there may be others. */
  names: readonly string[];
}

/** Takes time in proportion to the schema; its bodies may take longer. Throws an Error with the reason. */
export function readSchema(schema: unknown, { closed, objects = false }: SchemaOptions): ReadSchema {
  const reader = new SchemaReader(schema, closed);
  const read = reader.read();
  if (objects && reader.leaves(read.schema).some(({ type }) => type !== 'object'))
    refuse([], 'it allows values that are no objects, but the arguments of a call are an object');
  return read;
}

class SchemaReader {
  readonly #root: unknown;
  readonly #closed: boolean;
  readonly #bodies: ((rules: Rules) => string)[] = [];
  readonly #names = new Set<string>();
  readonly #defs: { [name: string]: Schema } = {};
  /** Names among `#defs`. */
  readonly #references = new Map<unknown, string>();
  #schemas = 0;
  #levels = 0;

  constructor(root: unknown, closed: boolean) {
    this.#root = root;
    this.#closed = closed;
  }

  read(): ReadSchema {
    const schema = { ...this.#schema(this.#root, []), $defs: this.#defs };
    const bodies = (rules: Rules) => this.#bodies.map((body) => body(rules));
    return { schema, bodies, names: [...this.#names] };
  }

  /** What a read schema is a choice of: schemas of one type, lists of constants, and schemas of all types. */
  leaves(schema: Schema, seen = new Set<Schema>()): Schema[] {
    if (seen.has(schema)) return [];
    seen.add(schema);
    const choices = schema.$ref === undefined ? schema.anyOf : [this.#defs[String(schema.$ref).slice(8)]];
    return choices === undefined
      ? [schema]
      : (choices as Schema[]).flatMap((each) => this.leaves(each, seen));
  }

  #schema(schema: unknown, path: Path): Schema {
    this.#schemas += 1;
    this.#levels += 1;
    if (this.#schemas > MOST_SCHEMAS) refuse([], `it has more than ${MOST_SCHEMAS} schemas`);
    if (this.#levels > MOST_LEVELS) refuse(path, 'it is nested too deep');
    const read = this.#read(schema, path);
    this.#levels -= 1;
    return read;
  }

  #read(schema: unknown, path: Path): Schema {
    if (schema === true) return {};
    if (!isSchema(schema)) refuse(path, `expected a JSON schema, found ${shown(schema)}`);
    const { nullable, ...own } = binding(schema);
    if (nullable === true) return { anyOf: [this.#schema(own, path), { type: 'null' }] };
    if (own.allOf !== undefined) return this.#schema(this.#merged(own, [...path, 'allOf']), path);
    const alone = ALONE.find((keyword) => own[keyword] !== undefined);
    if (alone === undefined) return this.#typed(own, path);
    const { [alone]: value, ...others } = own;
    const constants = alone === 'enum' || alone === 'const';
    const other = Object.keys(others).find((name) => !(constants && name === 'type'));
    if (other !== undefined) refuse([...path, other], `a grammar cannot follow "${other}" beside "${alone}"`);
    const at = [...path, alone];
    if (alone === '$ref') return this.#reference(value, at);
    if (constants) return this.#constants(alone === 'const' ? [value] : listOf(value, at), own.type, at);
    const anyOf = listOf(value, at).map((each, index) => this.#schema(each, [...at, String(index)]));
    if (alone === 'oneOf') this.#body(() => checkApart(anyOf.map((each) => this.leaves(each))), at);
    return { anyOf };
  }

  /** One schema for those of "allOf" and the keywords beside it. */
  #merged({ allOf, ...own }: Schema, path: Path): unknown {
    const parts = listOf(allOf, path);
    if (parts.length === 1 && Object.keys(own).length === 0) return parts[0];
    const all = [own, ...parts].flatMap((part): Schema[] => {
      const { $ref, ...others } = isSchema(part) ? binding(part) : { refused: part };
      return $ref === undefined ? [others] : [others, binding(this.#named($ref, path) as Schema)];
    });
    const entries = all.flatMap(({ properties }) => Object.entries(properties ?? {}));
    const properties = Object.fromEntries(entries);
    const fits = ({ type = 'object', properties: _properties, required: _required, ...others }: Schema) =>
      type === 'object' && Object.keys(others).length === 0;
    if (!all.every(fits) || Object.keys(properties).length < entries.length)
      refuse(path, 'several schemas must be objects with different properties');
    return { type: 'object', properties, required: all.flatMap(({ required }) => required ?? []) };
  }

  #named(reference: unknown, path: Path): unknown {
    const { $id } = this.#root as Schema;
    const given = String(reference);
    const own = given.startsWith(`${$id}#`) ? given.slice(String($id).length) : given;
    // A percent sign that encodes nothing stands for itself.
    const [root, ...names] = decodeURIComponent(own.replace(/%(?![\da-f]{2})/gi, '%25')).split('/');
    let found = root === '#' ? this.#root : undefined;
    for (const part of names) {
      const name = part.replaceAll('~1', '/').replaceAll('~0', '~');
      found = Object.hasOwn(Object(found), name) ? (found as Schema)[name] : undefined;
    }
    if (isSchema(found) || found === true) return found;
    return refuse(path, `${shown(reference)} names no schema; expected one such as "#/$defs/name"`);
  }

  #reference(value: unknown, path: Path): Schema {
    const target = this.#named(value, path);
    const name = this.#references.get(target) ?? `d${this.#references.size}`;
    if (!this.#references.has(target)) {
      this.#references.set(target, name);
      this.#defs[name] = this.#schema(target, String(value).split('/').slice(1));
    }
    return { $ref: `#/$defs/${name}` };
  }

  #constants(values: readonly unknown[], type: unknown, path: Path): Schema {
    const types = type === undefined ? Object.keys(KEYWORDS) : typesOf(type, path);
    const kept = values.filter((value) => types.some((each) => isOfType(value, each)));
    if (kept.length === 0) refuse(path, `it has no value of the type ${types.join(' or ')}`);
    const body = this.#body(() => kept.map((value) => literal(jsonText(value))).join(' | '), path);
    return { ...body, [VALUES]: kept, ...(kept.every(isSchema) && { type: 'object' }) };
  }

  /** A schema with values of our own. */
  #body(body: (rules: Rules) => string, path: Path): Schema {
    const named = (rules: Rules) => {
      try {
        return body(rules);
      } catch (error) {
        return refuse(path, (error as Error).message);
      }
    };
    return { const: this.#bodies.push(named) - 1 };
  }

  #typed(schema: Schema, path: Path): Schema {
    const implied = ['object', 'array', 'string', 'number'].filter((type) =>
      KEYWORDS[type]!.some((name) => schema[name] !== undefined),
    );
    const types = schema.type === undefined ? implied : typesOf(schema.type, [...path, 'type']);
    const allowed = ['type', 'format', ...types.flatMap((type) => KEYWORDS[type]!)];
    const other = Object.keys(schema).find((name) => !allowed.includes(name));
    const where = types.length > 0 ? `for the type ${types.join(' or ')}` : 'in a schema without a type';
    if (other !== undefined) refuse([...path, other], `a grammar cannot follow "${other}" ${where}`);
    const read = types.map((type) => this.#ofType(type, schema, path));
    return read.length === 1 ? read[0]! : read.length === 0 ? {} : { anyOf: read };
  }

  #ofType(type: string, schema: Schema, path: Path): Schema {
    if (type === 'object') return this.#object(schema, path);
    if (type === 'array') return this.#array(schema, path);
    if (type === 'string') return this.#string(schema, path);
    return type === 'number' || type === 'integer' ? this.#number(type, schema, path) : { type };
  }

  #string(schema: Schema, path: Path): Schema {
    const [least, most] = countsOf(schema, 'minLength', 'maxLength', path);
    // Beside a pattern, a format is a note: generators write both. Unknown formats are notes, too.
    const keyword = schema.pattern === undefined ? 'format' : 'pattern';
    const pattern = schema.pattern ?? STRING_FORMATS.get(schema.format);
    const own = { type: 'string' };
    if (least === undefined && most === undefined) {
      if (pattern === undefined) return own;
      const at = [...path, keyword];
      return { ...own, ...this.#body((rules) => textOfPattern(String(pattern), rules), at) };
    }
    if (pattern !== undefined) refuse(path, `a grammar can follow either a length or the ${keyword}`);
    return { ...own, ...this.#body((rules) => textOfLength(least ?? 0, most, rules), path) };
  }

  #number(type: string, schema: Schema, path: Path): Schema {
    const wrong = BOUNDS.find((name) => !['number', 'undefined'].includes(typeof schema[name]));
    if (wrong !== undefined) refuse([...path, wrong], `expected a number, found ${shown(schema[wrong])}`);
    if (BOUNDS.every((name) => schema[name] === undefined))
      return { type, ...this.#body(() => (type === 'integer' ? INTEGER : NUMBER), path) };
    const bounds = BOUNDS.map((name) => schema[name] as number | undefined);
    const [minimum, maximum, above, below, step = 1e-15] = bounds;
    const places = Array.from({ length: 16 }, (_, at) => at).find((at) => step === Number(`1e-${at}`));
    if (places === undefined)
      refuse([...path, 'multipleOf'], `a grammar can follow only 1, 0.1, 0.01 and so on, found ${step}`);
    const [least, most] = [stricter(minimum, above, -Infinity), stricter(maximum, below, Infinity)];
    return { type, ...this.#body(() => numbersWithin(least, most, type === 'integer' ? 0 : places), path) };
  }

  #array(schema: Schema, path: Path): Schema {
    // Older drafts name the first items and the others differently.
    const [first, others] = Array.isArray(schema.items)
      ? ['items', 'additionalItems']
      : ['prefixItems', 'items'];
    const [minItems = 0, maxItems] = countsOf(schema, 'minItems', 'maxItems', path);
    const given = schema[first!] === undefined ? [] : listOf(schema[first!], [...path, first!]);
    const prefixItems = given
      .slice(0, maxItems)
      .map((item, at) => this.#schema(item, [...path, first!, String(at)]));
    const fixed = prefixItems.length;
    const more = schema[others!] ?? (fixed === 0 || !this.#closed);
    const items = more !== false && fixed !== maxItems && this.#schema(more, [...path, others!]);
    if (items === false && minItems > fixed)
      refuse([...path, 'minItems'], `${minItems} items are more than the ${fixed} that it describes`);
    const most = items !== false && maxItems !== undefined && { maxItems };
    return { type: 'array', ...(fixed > 0 && { prefixItems }), items, minItems, ...most };
  }

  #object(schema: Schema, path: Path): Schema {
    const { properties: named, required: must = [], additionalProperties } = schema;
    if (named !== undefined && !isSchema(named))
      refuse([...path, 'properties'], `expected schemas by name, found ${shown(named)}`);
    const names = Object.keys(named ?? {});
    const required = [must].flat();
    const missing = required.find((name) => !Object.hasOwn(named ?? {}, String(name)));
    if (missing !== undefined) refuse([...path, 'required'], `${shown(missing)} is not among the properties`);
    const read = names.map((name) => this.#schema(named![name], [...path, 'properties', name]));
    const properties = Object.fromEntries(read.map((each, at) => [nameText(names[at]!), each]));
    const more = additionalProperties ?? (named === undefined || !this.#closed);
    const others = more !== false && this.#schema(more, [...path, 'additionalProperties']);
    if (others !== false) for (const name of names) this.#names.add(name);
    return { type: 'object', properties, required: required.map(nameText), additionalProperties: others };
  }
}

/** The keywords that bind values. Generators of schemas write others, and some that leave every value as it is. */
function binding(schema: Schema): Schema {
  const least = new Set([schema.required ?? []].flat()).size;
  const idle = ([name, value]: [string, unknown]) =>
    value === undefined ||
    NOTES.has(name) ||
    name.startsWith('x-') ||
    (value === false && (name === 'uniqueItems' || name === 'nullable')) ||
    (name === 'minProperties' && Number(value) <= least) ||
    (name === 'propertyNames' && JSON.stringify(value) === '{"type":"string"}');
  return Object.fromEntries(Object.entries(schema).filter((entry) => !idle(entry)));
}

function listOf(value: unknown, path: Path): unknown[] {
  return Array.isArray(value) && value.length > 0
    ? value
    : refuse(path, `expected a list, found ${shown(value)}`);
}

function typesOf(value: unknown, path: Path): string[] {
  const types = [...new Set([value].flat())] as string[];
  const unknown = types.find((type) => !Object.hasOwn(KEYWORDS, String(type)));
  if (types.length > 0 && unknown === undefined) return types;
  return refuse(path, `expected one of ${Object.keys(KEYWORDS).join(', ')}, found ${shown(unknown)}`);
}

function countsOf(schema: Schema, least: string, most: string, path: Path): (number | undefined)[] {
  const [from, to] = [least, most].map((name) => {
    const value = schema[name];
    if (
      value === undefined ||
      (Number.isInteger(value) && Number(value) >= 0 && Number(value) <= MOST_REPEATS)
    )
      return value as number | undefined;
    const why = `expected a whole number up to the limit of ${MOST_REPEATS}, found ${shown(value)}`;
    return refuse([...path, name], why);
  });
  if (from! > to!) refuse(path, `"${least}" of ${from} is above "${most}" of ${to}`);
  return [from, to];
}

/** `none` is the value of a missing bound. */
function stricter(inclusive: number | undefined, exclusive: number | undefined, none: number): Bound {
  const [own = none, other = none] = [inclusive, exclusive];
  const wins = none < 0 ? own > other : own < other;
  return { value: wins ? own : other, inclusive: wins };
}

/** A name as the library puts it into its EBNF: it writes names as they are. */
function nameText(name: unknown): string {
  return escapedText(JSON.stringify(name).slice(1, -1));
}

/** A value as the grammars write it: on one line, with ", " and ": " between its parts. */
function jsonText(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(jsonText).join(', ')}]`;
  if (!isSchema(value)) return JSON.stringify(value);
  const members = Object.entries(value).map(([name, own]) => `${JSON.stringify(name)}: ${jsonText(own)}`);
  return `{${members.join(', ')}}`;
}
