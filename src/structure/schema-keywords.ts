/** The keywords of JSON schemas, and checks of their values. */
import type { Schema } from './alternatives.js';

export type Path = readonly string[];

/** Characters or items that a bound may name. */
const MOST_REPEATS = 1_000;

/** Keywords that bind nothing. */
const NOTES = new Set(
  (
    '$schema $id id $anchor $dynamicAnchor $comment $defs definitions title description default deprecated discriminator example ' +
    'examples readOnly writeOnly contentEncoding contentMediaType'
  ).split(' '),
);
export const BOUNDS = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'];
export const KEYWORDS: Record<string, readonly string[]> = {
  string: ['minLength', 'maxLength', 'pattern'],
  number: BOUNDS,
  integer: BOUNDS,
  boolean: [],
  null: [],
  object: [
    'properties',
    'patternProperties',
    'required',
    'additionalProperties',
    'propertyNames',
    'minProperties',
    'maxProperties',
    'unevaluatedProperties',
  ],
  array: [
    'items',
    'prefixItems',
    'additionalItems',
    'minItems',
    'maxItems',
    'uniqueItems',
    'unevaluatedItems',
  ],
};

export function refuse(path: Path, why: string): never {
  const where = path.length === 0 ? '' : ` at ${path.join('.').slice(0, 200)}`;
  throw new Error(`The JSON schema${where} cannot be used: ${why}`);
}

export function shown(value: unknown): string {
  return (JSON.stringify(value) ?? 'nothing').slice(0, 60);
}

/** The keywords that bind values. Generators of schemas write others, and some that leave every value as it is. */
export function binding(schema: Schema): Schema {
  const least = new Set([schema.required ?? []].flat()).size;
  const idle = ([name, value]: [string, unknown]) =>
    value === undefined ||
    NOTES.has(name) ||
    name.startsWith('x-') ||
    (value === false && (name === 'uniqueItems' || name === 'nullable')) ||
    isIdle(name, schema) ||
    (name === 'minProperties' && Number(value) <= least) ||
    (name === 'propertyNames' && ['true', '{}', '{"type":"string"}'].includes(JSON.stringify(value))) ||
    (name === 'patternProperties' && JSON.stringify(value) === '{}');
  return Object.fromEntries(Object.entries(schema).filter((entry) => !idle(entry)));
}

/** Whether the keyword binds nothing without others. */
function isIdle(
  name: string,
  { if: condition, then, else: otherwise, contains, ...schema }: Schema,
): boolean {
  if (name === 'if') return then === undefined && otherwise === undefined;
  if (name === 'then' || name === 'else') return condition === undefined;
  const few = schema.minContains === 0 && schema.maxContains === undefined;
  if (name === 'minContains' || name === 'maxContains') return contains === undefined || few;
  return name === 'contains' ? few : name === 'not' && schema.not === false;
}

export function listOf(value: unknown, path: Path): unknown[] {
  return Array.isArray(value) && value.length > 0
    ? value
    : refuse(path, `expected a list, found ${shown(value)}`);
}

export function typesOf(value: unknown, path: Path): string[] {
  const types = [...new Set([value].flat())] as string[];
  const unknown = types.find((type) => !Object.hasOwn(KEYWORDS, String(type)));
  if (types.length > 0 && unknown === undefined) return types;
  return refuse(path, `expected one of ${Object.keys(KEYWORDS).join(', ')}, found ${shown(unknown)}`);
}

export function countsOf(
  schema: Schema,
  least: string,
  most: string,
  path: Path,
  limit = MOST_REPEATS,
): (number | undefined)[] {
  const [from, to] = [least, most].map((name) => {
    const value = schema[name];
    if (value === undefined || (Number.isInteger(value) && Number(value) >= 0 && Number(value) <= limit))
      return value as number | undefined;
    const why = `expected a whole number up to the limit of ${limit}, found ${shown(value)}`;
    return refuse([...path, name], why);
  });
  if (from! > to!) refuse(path, `"${least}" of ${from} is above "${most}" of ${to}`);
  return [from, to];
}

/** Whether a constant has a whole number whose digits JavaScript does not keep. */
export function isTooLong(value: unknown): boolean {
  if (typeof value === 'number') return Number.isInteger(value) && !Number.isSafeInteger(value);
  return typeof value === 'object' && value !== null && Object.values(value).some(isTooLong);
}
