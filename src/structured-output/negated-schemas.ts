/** Writes "not", "if" and the keywords of dependent properties as choices. */
import { escapePattern } from '../text/escape-pattern.js';
import { isSchema, type Schema } from './alternatives.js';
import {
  binding,
  isTooLong,
  KEYWORDS,
  listOf,
  type Path,
  patternOf,
  refuse,
  typesOf,
} from './schema-keywords.js';

type Named = (reference: unknown) => unknown;

/** Schemas within each other in "not" and "if", also by references. */
const MOST_LEVELS = 16;
export const LOGIC = ['not', 'if', 'then', 'else', 'dependentRequired', 'dependentSchemas', 'dependencies'];

/** The same schema without these keywords, which become parts of "allOf". */
export function withoutLogic(schema: Schema, named: Named, path: Path): Schema {
  if (LOGIC.every((keyword) => schema[keyword] === undefined)) return schema;
  const {
    not,
    if: condition,
    then,
    else: otherwise,
    dependentRequired,
    dependentSchemas,
    dependencies,
    ...own
  } = schema;
  const parts: unknown[] = own.allOf === undefined ? [] : listOf(own.allOf, path);
  if (not !== undefined) parts.push(negated(not, named, [...path, 'not']));
  if (condition !== undefined && (then ?? otherwise) !== undefined) {
    const others = negated(condition, named, [...path, 'if']);
    parts.push({ anyOf: [{ allOf: [condition, then ?? true] }, { allOf: [others, otherwise ?? true] }] });
  }
  for (const given of [dependentRequired, dependentSchemas, dependencies])
    for (const [name, needed] of Object.entries(Object(given))) {
      const present = { required: [name, ...(Array.isArray(needed) ? needed : [])] };
      const also = Array.isArray(needed) ? [present] : [present, needed];
      parts.push({ anyOf: [{ properties: { [name]: false } }, { allOf: also }] });
    }
  return { ...own, ...(parts.length > 0 && { allOf: parts }) };
}

/** A schema of all values that do not follow the given one. */
function negated(schema: unknown, named: Named, path: Path, levels = 0): unknown {
  if (typeof schema === 'boolean') return !schema;
  if (!isSchema(schema) || levels > MOST_LEVELS) refuse(path, 'a grammar cannot follow it');
  const inner = (each: unknown, ...names: string[]) => negated(each, named, [...path, ...names], levels + 1);
  const { type, $ref, not, allOf, anyOf, enum: values, const: only, ...own } = binding(schema);
  const choices: unknown[] = [];
  if (type !== undefined) choices.push(otherTypes(typesOf(type, path), path));
  if ($ref !== undefined) choices.push(inner(named($ref), '$ref'));
  if (not !== undefined) choices.push(not);
  if (allOf !== undefined) choices.push(...listOf(allOf, path).map((each) => inner(each, 'allOf')));
  if (anyOf !== undefined) choices.push({ allOf: listOf(anyOf, path).map((each) => inner(each, 'anyOf')) });
  const constants = only === undefined ? values : [only];
  if (constants !== undefined) choices.push(...otherValues(listOf(constants, path), path));
  for (const [keyword, value] of Object.entries(own)) choices.push(...otherThan(keyword, value, inner, path));
  return choices.length === 1 ? choices[0] : choices.length === 0 ? false : { anyOf: choices };
}

function otherTypes(types: readonly string[], path: Path): unknown {
  if (types.includes('integer') && !types.includes('number'))
    refuse(path, 'a grammar cannot leave out whole numbers');
  const others = Object.keys(KEYWORDS).filter((type) => type !== 'integer' && !types.includes(type));
  return others.length === 0 ? false : { type: others };
}

function otherValues(values: readonly unknown[], path: Path): unknown[] {
  if (values.some((value) => (typeof value === 'object' && value !== null) || isTooLong(value)))
    refuse(path, 'a grammar cannot leave out such a value');
  const texts = values.filter((value) => typeof value === 'string').map(escapePattern);
  const numbers = values.filter((value) => typeof value === 'number').sort((one, other) => one - other);
  const spans = [...numbers, undefined].map((number, at) => ({
    type: 'number',
    ...(at > 0 && { exclusiveMinimum: numbers[at - 1] }),
    ...(number !== undefined && { exclusiveMaximum: number }),
  }));
  const truths = [true, false].filter((value) => !values.includes(value));
  return [
    { type: ['object', 'array', ...(values.includes(null) ? [] : ['null'])] },
    ...(truths.length > 0 ? [{ enum: truths }] : []),
    { type: 'string', ...(texts.length > 0 && { pattern: `^(?!(?:${texts.join('|')})$)` }) },
    ...spans,
  ];
}

/** A keyword, the one that holds where it does not, their type, and what is between their bounds. */
const REVERSED: Record<string, readonly [keyword: string, type: string, step: number]> = {
  minLength: ['maxLength', 'string', -1],
  maxLength: ['minLength', 'string', 1],
  minItems: ['maxItems', 'array', -1],
  maxItems: ['minItems', 'array', 1],
  minProperties: ['maxProperties', 'object', -1],
  maxProperties: ['minProperties', 'object', 1],
  minimum: ['exclusiveMaximum', 'number', 0],
  maximum: ['exclusiveMinimum', 'number', 0],
  exclusiveMinimum: ['maximum', 'number', 0],
  exclusiveMaximum: ['minimum', 'number', 0],
};

/** Values for which a keyword does not hold. */
function otherThan(
  keyword: string,
  value: unknown,
  inner: (schema: unknown, ...names: string[]) => unknown,
  path: Path,
): unknown[] {
  const [other, type, step] = REVERSED[keyword] ?? [];
  if (other !== undefined && typeof value === 'number')
    return value + step! < 0 && type !== 'number' ? [] : [{ type, [other]: value + step! }];
  if (keyword === 'contains') return [{ type: 'array', items: inner(value, keyword) }];
  if (keyword === 'items' && !Array.isArray(value))
    return [{ type: 'array', contains: inner(value, keyword) }];
  if (keyword === 'pattern') return [{ type: 'string', pattern: `^(?![^]*(?:${patternOf(value, path)}))` }];
  if (keyword === 'required')
    return [value].flat().map((name) => ({ type: 'object', properties: { [String(name)]: false } }));
  if (keyword === 'properties' && isSchema(value))
    return Object.entries(value).map(([name, each]) => ({
      type: 'object',
      required: [name],
      properties: { [name]: inner(each, keyword, name) },
    }));
  return refuse([...path, keyword], `a grammar cannot follow "${keyword}" here`);
}
