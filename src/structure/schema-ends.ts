/** Finds schemas without a finite value: each value would hold another one of the same schema, and so on. */
import { isSchema, resolvedReference, type Schema, typesOf } from './schema.js';

/** Of `schemas`, which must be all that `root` has, and must be checked otherwise. */
export function endlessSchemas(schemas: Iterable<Schema>, root: unknown): Schema[] {
  const ways = new Map([...schemas].map((schema) => [schema, waysOf(schema, root)] as const));
  const users = new Map([...ways.keys()].map((schema) => [schema as unknown, [] as Schema[]] as const));
  for (const [schema, own] of ways) for (const part of own.flat()) users.get(part)?.push(schema);
  const endless = new Set<unknown>(ways.keys());
  // Most schemas stand behind those that use them.
  const waiting = [...ways.keys()];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    if (!endless.has(next) || !ways.get(next)!.some((way) => way.every((part) => !endless.has(part))))
      continue;
    endless.delete(next);
    waiting.push(...users.get(next)!);
  }
  return [...ways.keys()].filter((schema) => endless.has(schema));
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
