/** Refuses what is no JSON schema, and schemas that a grammar cannot express: an answer would not follow them. */
import { SidaError } from '../errors.js';
import { isSchema, KEYWORDS, resolvedReference, type Schema, typesOf } from './schema.js';
import { Disjoint } from './schema-disjoint.js';
import { endlessSchemas } from './schema-ends.js';
import { refuse, SchemaFault, shown } from './schema-fault.js';
import { SCHEMA_LIMITS } from './schema-limits.js';
import { checkCounts, checkNumbers, checkText } from './schema-values.js';
import { SchemaWork } from './schema-work.js';

/** Keywords that describe a value and bind nothing. */
const NOTES = [
  '$schema',
  '$id',
  '$comment',
  '$defs',
  'definitions',
  'title',
  'description',
  'default',
  'deprecated',
  'discriminator',
  'example',
  'examples',
  'readOnly',
  'writeOnly',
];

const TYPES = ['string', 'number', 'integer', 'boolean', 'null', 'object', 'array'];

/** Keywords that stand alone, since a grammar would follow only one of them. */
const ALONE = ['$ref', 'const', 'enum', 'anyOf', 'oneOf', 'allOf'];

/** Names that other names can be told from. */
const PRINTABLE = /^[\x20-\x7e]*$/;
/** Of "oneOf", where each is compared with each. */
const MOST_BRANCHES = 64;

/**
 * Throws invalid_request, which names the place within `param`. Returns the schema as text. `closed`: whether objects
 * have only the properties that the schema names, where it does not say. `work` counts for all schemas of a request.
 */
export function checkedSchema(
  schema: unknown,
  param: string,
  closed = true,
  work = new SchemaWork(),
): string {
  try {
    const text = textOf(schema);
    new SchemaCheck(schema, closed, work).run();
    return text;
  } catch (error) {
    if (!(error instanceof SchemaFault)) throw error;
    throw new SidaError({ code: 'invalid_request', message: error.message, param });
  }
}

function textOf(schema: unknown): string {
  let text = '';
  try {
    text = JSON.stringify(schema) ?? '';
  } catch {
    // A constant of tens of thousands of lists overflows the stack.
    refuse([], 'it is nested too deep');
  }
  const bytes = Buffer.byteLength(text);
  if (bytes > SCHEMA_LIMITS.bytes) refuse([], `it has ${bytes} bytes; the limit is ${SCHEMA_LIMITS.bytes}`);
  return text;
}

class SchemaCheck {
  readonly #root: unknown;
  readonly #open: boolean;
  readonly #work: SchemaWork;
  readonly #disjoint = new Disjoint();
  #schemas = 0;
  /** With the place of each. */
  readonly #checked = new Map<Schema, readonly string[]>();
  /** Those that are in no circle. */
  readonly #straight = new Set<unknown>();
  readonly #references: { schema: unknown; path: readonly string[] }[] = [];

  constructor(root: unknown, closed: boolean, work: SchemaWork) {
    this.#root = root;
    this.#open = !closed;
    this.#work = work;
  }

  run(): void {
    this.#check(this.#root, [], 0);
    for (const { schema, path } of this.#references) {
      if (!this.#checked.has(schema as Schema) && schema !== true) refuse(path, 'it names no schema');
      this.#checkCircle(schema, path);
    }
    const [endless] = endlessSchemas(this.#checked.keys(), this.#root);
    if (endless !== undefined) refuse(this.#checked.get(endless)!, 'a value of it could never end');
  }

  #check(schema: unknown, path: readonly string[], depth: number): void {
    this.#schemas += 1;
    if (this.#schemas > SCHEMA_LIMITS.schemas)
      refuse([], `it has more than ${SCHEMA_LIMITS.schemas} schemas`);
    if (depth > SCHEMA_LIMITS.depth) refuse(path, `it is nested deeper than ${SCHEMA_LIMITS.depth} levels`);
    if (schema === true) return;
    if (!isSchema(schema)) refuse(path, `expected a JSON schema, found ${shown(schema)}`);
    this.#checked.set(schema, path);
    for (const name of ['$defs', 'definitions']) this.#checkEach(schema, name, path, depth);
    const alone = ALONE.find((keyword) => schema[keyword] !== undefined);
    if (alone === undefined) this.#checkTyped(schema, path, depth);
    else this.#checkAlone(schema, alone, path, depth);
  }

  #checkAlone(schema: Schema, keyword: string, path: readonly string[], depth: number): void {
    const allowed = keyword === 'enum' || keyword === 'const' ? ['type', keyword] : [keyword];
    this.#onlyKeywords(schema, allowed, path, `beside "${keyword}"`);
    const value = schema[keyword];
    const at = [...path, keyword];
    if (keyword === '$ref') this.#checkReference(value, at);
    else if (keyword === 'enum') this.#checkEnum(schema, value, at);
    else if (keyword === 'const') this.#checkValueType(schema, value, at);
    else this.#checkBranches(keyword, value, at, depth);
  }

  #checkReference(value: unknown, path: readonly string[]): void {
    if (typeof value !== 'string' || !(value === '#' || value.startsWith('#/')))
      refuse(path, `expected a reference within the schema, such as "#/$defs/name", found ${shown(value)}`);
    const schema = resolvedReference(this.#root, value);
    if (!isSchema(schema) && schema !== true) refuse(path, `${shown(value)} names no schema`);
    this.#references.push({ schema, path });
  }

  /** Refuses a schema that is its own alternative, because a value of it would never begin. */
  #checkCircle(schema: unknown, path: readonly string[], above = new Set<unknown>()): void {
    if (!isSchema(schema) || this.#straight.has(schema)) return;
    if (above.has(schema)) refuse(path, 'it refers to itself without a property or an item between');
    const { $ref, anyOf, oneOf, allOf } = schema;
    const next =
      typeof $ref === 'string' ? [resolvedReference(this.#root, $ref)] : (anyOf ?? oneOf ?? allOf ?? []);
    above.add(schema);
    for (const each of next as unknown[]) this.#checkCircle(each, path, above);
    above.delete(schema);
    this.#straight.add(schema);
  }

  #checkEnum(schema: Schema, value: unknown, path: readonly string[]): void {
    if (!Array.isArray(value) || value.length === 0) refuse(path, 'expected a list of values');
    if (value.length > SCHEMA_LIMITS.enumValues)
      refuse(path, `it has ${value.length} values; the limit is ${SCHEMA_LIMITS.enumValues}`);
    for (const each of value) this.#checkValueType(schema, each, path);
  }

  #checkValueType({ type }: Schema, value: unknown, path: readonly string[]): void {
    if (type === undefined) return;
    const types = this.#types(type, path);
    if (!types.some((each) => isOfType(value, each)))
      refuse(path, `${shown(value)} is not of the type ${types.join(' or ')}`);
  }

  #checkBranches(keyword: string, value: unknown, path: readonly string[], depth: number): void {
    if (!Array.isArray(value) || value.length === 0) refuse(path, 'expected a list of schemas');
    if (keyword === 'allOf' && value.length > 1)
      refuse(path, 'a grammar can follow only one schema of "allOf"');
    for (const [at, each] of value.entries()) this.#check(each, [...path, String(at)], depth + 1);
    if (keyword !== 'oneOf') return;
    if (value.length > MOST_BRANCHES)
      refuse(path, `${value.length} schemas are more than the limit of ${MOST_BRANCHES}; "anyOf" has none`);
    const branches = value.map((each) =>
      isSchema(each) && typeof each.$ref === 'string' ? resolvedReference(this.#root, each.$ref) : each,
    );
    if (!this.#disjoint.every(branches, (count) => this.#work.compared(count, path)))
      refuse(
        path,
        'its schemas must differ in their types, or in the constant of a required property; "anyOf" needs neither',
      );
  }

  #checkTyped(schema: Schema, path: readonly string[], depth: number): void {
    const types = typesOf(schema);
    if (schema.type !== undefined) this.#types(schema.type, [...path, 'type']);
    if (types === undefined) {
      this.#onlyKeywords(schema, [], path, 'in a schema without a type');
      return;
    }
    const allowed = new Set(types.flatMap((type) => KEYWORDS[type]!));
    this.#onlyKeywords(schema, ['type', ...allowed], path, `for the type ${types.join(' or ')}`);
    if (types.includes('string')) checkText(schema, path, this.#work);
    if (types.includes('array')) this.#checkArray(schema, path, depth);
    if (types.includes('object')) this.#checkObject(schema, path, depth);
    if (types.includes('integer') || types.includes('number')) checkNumbers(schema, types, path);
  }

  #types(value: unknown, path: readonly string[]): string[] {
    const types = Array.isArray(value) ? value : [value];
    if (types.length > TYPES.length)
      refuse(path, `${types.length} types are more than the ${TYPES.length} that there are`);
    const unknown = types.find((type) => !TYPES.includes(type));
    if (types.length === 0 || unknown !== undefined)
      refuse(path, `expected one of ${TYPES.join(', ')}, found ${shown(unknown)}`);
    return types as string[];
  }

  #checkArray(schema: Schema, path: readonly string[], depth: number): void {
    checkCounts(schema, 'minItems', 'maxItems', path);
    const { items, prefixItems } = schema;
    if (items !== undefined && items !== false) this.#check(items, [...path, 'items'], depth + 1);
    const { minItems = 0 } = schema as { minItems?: number };
    const fixed = Array.isArray(prefixItems) ? prefixItems.length : 0;
    if ((items === false || (items === undefined && fixed > 0)) && minItems > fixed)
      refuse([...path, 'minItems'], `${minItems} items are more than the ${fixed} that it describes`);
    if (prefixItems === undefined) return;
    if (!Array.isArray(prefixItems)) refuse([...path, 'prefixItems'], 'expected a list of schemas');
    for (const [at, each] of prefixItems.entries())
      this.#check(each, [...path, 'prefixItems', String(at)], depth + 1);
  }

  #checkObject(schema: Schema, path: readonly string[], depth: number): void {
    this.#checkEach(schema, 'properties', path, depth);
    const { required, properties, additionalProperties: others } = schema;
    if (others !== false && (others !== undefined || this.#open))
      this.#checkNames(Object.keys((properties ?? {}) as object), [...path, 'properties']);
    if (others !== undefined && others !== false)
      this.#check(others, [...path, 'additionalProperties'], depth + 1);
    if (required === undefined) return;
    const at = [...path, 'required'];
    if (!Array.isArray(required) || required.some((name) => typeof name !== 'string'))
      refuse(at, 'expected a list of names');
    const missing = required.find((name) => !Object.hasOwn((properties ?? {}) as object, name));
    if (missing !== undefined) refuse(at, `${shown(missing)} is not among the properties`);
  }

  /** Checks names beside which there may be others. */
  #checkNames(names: readonly string[], path: readonly string[]): void {
    const strange = names.find((name) => !PRINTABLE.test(name));
    if (strange !== undefined)
      refuse(
        path,
        `beside ${shown(strange)}, a name with other characters than those of ASCII, there can be no other properties`,
      );
    const long = names.find((name) => name.length > SCHEMA_LIMITS.name);
    if (long !== undefined)
      refuse(
        path,
        `beside ${shown(long)}, a name of more than ${SCHEMA_LIMITS.name} characters, there can be no other properties`,
      );
  }

  /** Checks the schemas in an object of schemas. */
  #checkEach(schema: Schema, name: string, path: readonly string[], depth: number): void {
    const value = schema[name];
    if (value === undefined) return;
    if (!isSchema(value)) refuse([...path, name], `expected schemas by name, found ${shown(value)}`);
    for (const [key, each] of Object.entries(value)) this.#check(each, [...path, name, key], depth + 1);
  }

  #onlyKeywords(schema: Schema, allowed: readonly string[], path: readonly string[], where: string): void {
    const other = Object.keys(schema).find(
      (name) => !allowed.includes(name) && !NOTES.includes(name) && !bindsNothing(schema, name),
    );
    if (other !== undefined) refuse([...path, other], `a grammar cannot follow "${other}" ${where}`);
  }
}

/** Whether the keyword, with its value, leaves every value as it is: some generators of schemas write it anyway. */
function bindsNothing(schema: Schema, name: string): boolean {
  if (name === 'uniqueItems') return schema.uniqueItems === false;
  if (name === 'multipleOf') return schema.multipleOf === 1 && schema.type === 'integer';
  if (name !== 'minProperties') return false;
  const { minProperties: least, required } = schema;
  const there = Array.isArray(required) ? new Set(required).size : 0;
  return Number.isSafeInteger(least) && 0 <= (least as number) && (least as number) <= there;
}

function isOfType(value: unknown, type: string): boolean {
  if (type === 'null') return value === null;
  if (type === 'array') return Array.isArray(value);
  if (type === 'object') return isSchema(value);
  if (type === 'integer') return Number.isInteger(value);
  return typeof value === type;
}
