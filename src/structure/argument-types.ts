/** The JSON types of the arguments of tools, for forms of calls that write texts without quotation marks. */
import type { ArgumentTypes } from '../text/chat/answer-format.js';
import { isSchema, type Schema } from './alternatives.js';

interface ToolFunction {
  name: string;
  parameters?: Record<string, unknown> | null | undefined;
}

/** References and choices within each other. */
const MOST_LEVELS = 16;
const ALL = ['string', 'number', 'boolean', 'null', 'array', 'object'];

/** Arguments without an entry may be of any type. */
export function argumentTypes(tools: readonly ToolFunction[]): ArgumentTypes {
  return Object.fromEntries(
    tools.map(({ name, parameters }) => {
      const root = parameters ?? {};
      const properties = objectsOf(root, root, 0).flatMap(({ properties: own }) =>
        isSchema(own) ? Object.entries(own) : [],
      );
      const types: [string, string[]][] = [];
      for (const [key, schema] of properties) {
        const own = typesOf(schema, root, 0);
        if (own.size < ALL.length) types.push([key, [...own]]);
      }
      return [name, Object.fromEntries(types)];
    }),
  );
}

/** The schemas of objects that a schema is a choice of. */
function objectsOf(schema: unknown, root: Schema, level: number): Schema[] {
  if (!isSchema(schema) || level > MOST_LEVELS) return [];
  const inner = [schema.anyOf, schema.oneOf, schema.allOf].flatMap((each) =>
    Array.isArray(each) ? each : [],
  );
  const named = schema.$ref === undefined ? [] : [namedSchema(schema.$ref, root)];
  return [schema, ...[...inner, ...named].flatMap((each) => objectsOf(each, root, level + 1))];
}

function typesOf(schema: unknown, root: Schema, level: number): Set<string> {
  if (!isSchema(schema) || level > MOST_LEVELS) return new Set(ALL);
  const { $ref, const: only, enum: values, type, anyOf, oneOf, allOf, nullable } = schema;
  const parts: Set<string>[] = [];
  const either = (choices: unknown) =>
    Array.isArray(choices)
      ? parts.push(new Set(choices.flatMap((each) => [...typesOf(each, root, level + 1)])))
      : 0;
  if ($ref !== undefined) parts.push(typesOf(namedSchema($ref, root), root, level + 1));
  if (only !== undefined) parts.push(new Set([typeOf(only)]));
  if (Array.isArray(values)) parts.push(new Set(values.map(typeOf)));
  const named = [type].flat().filter((each) => typeof each === 'string');
  if (named.length > 0) parts.push(new Set(named.map((each) => (each === 'integer' ? 'number' : each))));
  either(anyOf);
  either(oneOf);
  if (Array.isArray(allOf)) for (const each of allOf) parts.push(typesOf(each, root, level + 1));
  const all = ALL.filter((each) => parts.every((part) => part.has(each)));
  return new Set(nullable === true ? [...all, 'null'] : all);
}

/** Undefined if the reference names no schema of the root. */
export function namedSchema(reference: unknown, root: Schema): unknown {
  const [first, ...names] = String(reference).split('/');
  let found: unknown = first === '#' ? root : undefined;
  for (const name of names.map((each) => each.replaceAll('~1', '/').replaceAll('~0', '~')))
    found = Object.hasOwn(Object(found), name) ? (found as Schema)[name] : undefined;
  return found;
}

function typeOf(value: unknown): string {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'array' : typeof value;
}
