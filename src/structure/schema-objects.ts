/** Whether all values of a schema are objects. */
import { isSchema, resolvedReference, type Schema, typesOf } from './schema.js';

/** `root` must have passed `checkedSchema`. */
export function hasOnlyObjects(root: unknown): boolean {
  // Many alternatives may refer to the same schema.
  const seen = new Set<unknown>();
  const only = (schema: unknown): boolean => {
    if (seen.has(schema)) return true;
    seen.add(schema);
    if (!isSchema(schema)) return false;
    if (schema.const !== undefined) return isSchema(schema.const);
    if (Array.isArray(schema.enum)) return schema.enum.every(isSchema);
    const next = alternatives(schema, root);
    return next === undefined
      ? typesOf(schema)?.every((type) => type === 'object') === true
      : next.every(only);
  };
  return only(root);
}

function alternatives({ $ref, anyOf, oneOf, allOf }: Schema, root: unknown): unknown[] | undefined {
  if (typeof $ref === 'string') return [resolvedReference(root, $ref)];
  return (anyOf ?? oneOf ?? allOf) as unknown[] | undefined;
}
