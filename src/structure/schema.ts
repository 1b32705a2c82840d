/** What the reading of JSON schemas has in common. */

export type Schema = { [keyword: string]: unknown };

export function isSchema(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** What a reference such as `#/$defs/name` names in the schema. It is a part of a URI, so it may have percent signs. */
export function resolvedReference(root: unknown, reference: string): unknown {
  let found: unknown = root;
  for (const part of decoded(reference).split('/').slice(1)) {
    const name = part.includes('~') ? part.replaceAll('~1', '/').replaceAll('~0', '~') : part;
    if (Array.isArray(found)) found = found[Number(name)];
    else found = isSchema(found) && Object.hasOwn(found, name) ? found[name] : undefined;
  }
  return found;
}

/** A reference that is encoded wrongly stands for itself. */
function decoded(reference: string): string {
  if (!reference.includes('%')) return reference;
  try {
    return decodeURIComponent(reference);
  } catch {
    return reference;
  }
}

/** Keywords that a grammar follows, by the type of value that they bind. */
export const KEYWORDS: Record<string, readonly string[]> = {
  string: ['minLength', 'maxLength', 'pattern', 'format'],
  integer: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'format'],
  number: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'format'],
  object: ['properties', 'required', 'additionalProperties'],
  array: ['items', 'prefixItems', 'minItems', 'maxItems'],
  boolean: [],
  null: [],
};

/** The types of values, by `type` or by the keywords of objects and lists; undefined for all types. */
export function typesOf(schema: Schema): string[] | undefined {
  const { type } = schema;
  if (type !== undefined) return (Array.isArray(type) ? type : [type]) as string[];
  const implied = ['object', 'array'].filter((each) =>
    KEYWORDS[each]!.some((name) => schema[name] !== undefined),
  );
  return implied.length === 1 ? implied : undefined;
}
