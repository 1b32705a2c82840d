/** The keywords of JSON schemas, and checks of their values. */
import { isDeepStrictEqual } from 'node:util';
import { isOfType, isSchema, type Schema } from './alternatives.js';

export type Path = readonly string[];

/** Characters or items that a bound may name. */
const MOST_REPEATS = 100_000;

/** Keywords that bind nothing. */
const NOTES = new Set(
  (
    '$schema $id id $anchor $dynamicAnchor $comment $defs definitions title description default deprecated discriminator example ' +
    'examples readOnly writeOnly contentEncoding contentMediaType'
  ).split(' '),
);
export const CONSTANTS = ['enum', 'const'];
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
    'contains',
    'minContains',
    'maxContains',
  ],
};

/** Of texts, and so of names. */
export const TEXT_KEYWORDS = [...KEYWORDS.string!, 'format'];

export function refuse(path: Path, why: string): never {
  throw new Error(placed(path, why));
}

function placed(path: Path, why: string): string {
  const where = path.length === 0 ? '' : ` at ${path.join('.').slice(0, 200)}`;
  return `The JSON schema${where} cannot be used: ${why}`;
}

/** No value follows a schema. Where there are others to choose from, it is left out. */
export class NoValue extends Error {}

export function impossible(path: Path, why: string): never {
  throw new NoValue(placed(path, why));
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
function isIdle(name: string, { contains, ...schema }: Schema): boolean {
  const few = schema.minContains === 0 && schema.maxContains === undefined;
  if (name === 'minContains' || name === 'maxContains') return contains === undefined || few;
  return name === 'contains' ? few : name === 'not' && schema.not === false;
}

export function listOf(value: unknown, path: Path): unknown[] {
  return Array.isArray(value) && value.length > 0
    ? value
    : refuse(path, `expected a list, found ${shown(value)}`);
}

/** A pattern stands within others: it must be whole. */
export function patternOf(value: unknown, path: Path): string {
  try {
    return new RegExp(String(value), 'u').source;
  } catch (error) {
    return refuse(path, (error as Error).message);
  }
}

export function typesOf(value: unknown, path: Path): string[] {
  const types = [...new Set([value].flat())] as string[];
  const unknown = types.find((type) => !Object.hasOwn(KEYWORDS, String(type)));
  if (types.length > 0 && unknown === undefined) return types;
  return refuse(path, `expected one of ${Object.keys(KEYWORDS).join(', ')}, found ${shown(unknown)}`);
}

export function countsOf(schema: Schema, least: string, most: string, path: Path): (number | undefined)[] {
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
  if (from! > to!) impossible(path, `"${least}" of ${from} is above "${most}" of ${to}`);
  return [from, to];
}

/** Whether a constant has a whole number whose digits JavaScript does not keep. */
export function isTooLong(value: unknown): boolean {
  if (typeof value === 'number') return Number.isInteger(value) && !Number.isSafeInteger(value);
  return typeof value === 'object' && value !== null && Object.values(value).some(isTooLong);
}

/** Whether a constant follows the keywords of a schema. */
export function follows(value: unknown, schema: unknown, path: Path): boolean {
  if (typeof schema === 'boolean') return schema;
  return Object.entries(isSchema(schema) ? binding(schema) : {}).every(([keyword, bound]) => {
    const type = Object.keys(KEYWORDS).find((each) => KEYWORDS[each]!.includes(keyword));
    if (keyword === 'type') return typesOf(bound, path).some((each) => isOfType(value, each));
    if (keyword === 'anyOf') return listOf(bound, path).some((each) => follows(value, each, path));
    if (keyword === 'allOf') return listOf(bound, path).every((each) => follows(value, each, path));
    if (CONSTANTS.includes(keyword))
      return [bound].flat(keyword === 'enum' ? 1 : 0).some((each) => isDeepStrictEqual(each, value));
    if (type !== undefined && !isOfType(value, type)) return true;
    const [list, object] = [value as unknown[], value as Schema];
    const size =
      typeof value === 'string' ? [...value].length : Array.isArray(value) ? value.length : Number(value);
    if (/^(?:min(?!P)|max(?!P)|exclusive)/.test(keyword) && typeof bound === 'number')
      return size === bound ? keyword.startsWith('m') : /max/i.test(keyword) === size < bound;
    if (keyword === 'pattern') return new RegExp(patternOf(bound, path), 'u').test(String(value));
    if (keyword === 'items') return list.every((each) => follows(each, bound, path));
    if (keyword === 'required') return [bound].flat().every((name) => Object.hasOwn(object, String(name)));
    if (keyword !== 'properties' || !isSchema(bound))
      return refuse([...path, keyword], `a grammar cannot follow "${keyword}" with constants`);
    return Object.keys(bound).every(
      (name) => !Object.hasOwn(object, name) || follows(object[name], bound[name], path),
    );
  });
}
