/** Finds schemas without a finite value: each value would hold another one of the same schema, and so on. */
import { isSchema, resolvedReference, type Schema, typesOf } from './schema.js';

/** A way to write a value of a schema. */
interface Way {
  schema: Schema;
  /** Schemas whose values it holds and that may be endless. */
  missing: number;
}

/** Of `schemas`, which must be all that `root` has, and must be checked otherwise. Takes time in proportion to them. */
export function endlessSchemas(schemas: Iterable<Schema>, root: unknown): Schema[] {
  const endless = new Set<unknown>(schemas);
  const all = [...endless] as Schema[];
  const users = new Map(all.map((schema) => [schema as unknown, [] as Way[]]));
  const ending: Schema[] = [];
  for (const schema of all) {
    for (const parts of waysOf(schema, root)) {
      const known = parts.filter((part) => endless.has(part));
      const way = { schema, missing: known.length };
      for (const part of known) users.get(part)!.push(way);
      if (way.missing === 0) ending.push(schema);
    }
  }
  for (let next = ending.pop(); next !== undefined; next = ending.pop()) {
    if (!endless.delete(next)) continue;
    for (const way of users.get(next)!) {
      way.missing -= 1;
      if (way.missing === 0) ending.push(way.schema);
    }
  }
  return all.filter((schema) => endless.has(schema));
}

/** The ways to write a value: the schemas whose values each of them holds. */
function waysOf(schema: Schema, root: unknown): unknown[][] {
  const { $ref, anyOf, oneOf, allOf } = schema;
  if (typeof $ref === 'string') return [[resolvedReference(root, $ref)]];
  if (schema.const !== undefined || schema.enum !== undefined) return [[]];
  const branches = (anyOf ?? oneOf ?? allOf) as unknown[] | undefined;
  if (branches !== undefined) return branches.map((branch) => [branch]);
  return (typesOf(schema) ?? ['null']).map((type) => {
    if (type === 'object') return requiredOf(schema);
    return type === 'array' ? leastItemsOf(schema) : [];
  });
}

function requiredOf({ required, properties }: Schema): unknown[] {
  const names = (required ?? []) as string[];
  return [...new Set(names)].map((name) => (isSchema(properties) ? properties[name] : true));
}

function leastItemsOf({ minItems, prefixItems, items }: Schema): unknown[] {
  const [least, fixed] = [(minItems ?? 0) as number, (prefixItems ?? []) as unknown[]];
  return least > fixed.length ? [...fixed, items] : fixed.slice(0, least);
}
