/** The JSON types of the arguments of tools, for forms of calls that write texts without quotation marks. */
import type { ArgumentTypes } from '../text/chat/answer-format.js';
import { isSchema, type Schema } from './alternatives.js';
import { namedSchema } from './references.js';

interface ToolFunction {
  name: string;
  parameters?: Record<string, unknown> | null | undefined;
}

const ALL = ['string', 'number', 'boolean', 'null', 'array', 'object'];

/** Arguments without an entry may be of any type. */
export function argumentTypes(tools: readonly ToolFunction[]): ArgumentTypes {
  return Object.fromEntries(
    tools.map(({ name, parameters }) => {
      const root = parameters ?? {};
      const typesOf = typeReader(root);
      const properties = objectsOf(root, root, new Set()).flatMap(({ properties: own }) =>
        isSchema(own) ? Object.entries(own) : [],
      );
      const types = properties.map(([key, schema]): [string, string[]] => [key, [...typesOf(schema)]]);
      return [name, Object.fromEntries(types.filter(([, own]) => own.length < ALL.length))];
    }),
  );
}

/** The schemas of objects that a schema is a choice of, each of them once. */
function objectsOf(schema: unknown, root: Schema, seen: Set<Schema>): Schema[] {
  if (!isSchema(schema) || seen.has(schema)) return [];
  seen.add(schema);
  const inner = [schema.anyOf, schema.oneOf, schema.allOf].flatMap((each) =>
    Array.isArray(each) ? each : [],
  );
  const named = schema.$ref === undefined ? [] : [namedSchema(schema.$ref, root)];
  return [schema, ...[...inner, ...named].flatMap((each) => objectsOf(each, root, seen))];
}

/** Reads each schema once. One that refers to itself may be of any type. */
function typeReader(root: Schema): (schema: unknown) => ReadonlySet<string> {
  const known = new Map<Schema, ReadonlySet<string>>();
  const any: ReadonlySet<string> = new Set(ALL);
  const typesOf = (schema: unknown): ReadonlySet<string> => {
    if (!isSchema(schema)) return any;
    const found = known.get(schema);
    if (found !== undefined) return found;
    known.set(schema, any);
    const types = typesOfParts(schema, root, typesOf);
    known.set(schema, types);
    return types;
  };
  return typesOf;
}

function typesOfParts(
  { $ref, const: only, enum: values, type, anyOf, oneOf, allOf, nullable }: Schema,
  root: Schema,
  typesOf: (schema: unknown) => ReadonlySet<string>,
): ReadonlySet<string> {
  const parts: ReadonlySet<string>[] = [];
  if ($ref !== undefined) parts.push(typesOf(namedSchema($ref, root)));
  if (only !== undefined) parts.push(new Set([typeOf(only)]));
  if (Array.isArray(values)) parts.push(new Set(values.map(typeOf)));
  const named = [type].flat().filter((each) => typeof each === 'string');
  if (named.length > 0) parts.push(new Set(named.map((each) => (each === 'integer' ? 'number' : each))));
  for (const choices of [anyOf, oneOf])
    if (Array.isArray(choices)) parts.push(new Set(choices.flatMap((each) => [...typesOf(each)])));
  if (Array.isArray(allOf)) parts.push(...allOf.map(typesOf));
  const all = ALL.filter((each) => parts.every((part) => part.has(each)));
  return new Set(nullable === true ? [...all, 'null'] : all);
}

function typeOf(value: unknown): string {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'array' : typeof value;
}
