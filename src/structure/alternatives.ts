/** What the reading of a schema and the check of its alternatives have in common, and that check. */

/** Constants of a schema that was read, which is JSON without them. */
export const VALUES = Symbol('values');
export type Schema = { [keyword: string]: unknown; [VALUES]?: readonly unknown[] };

export function isSchema(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function isOfType(value: unknown, type: string): boolean {
  if (type === 'null') return value === null;
  if (type === 'array') return Array.isArray(value);
  if (type === 'object') return isSchema(value);
  return type === 'integer' ? Number.isInteger(value) : typeof value === type;
}

/** Throws where a value could follow two schemas, as far as their types and constants tell. */
export function checkApart(branches: readonly (readonly Schema[])[]): string {
  const why =
    'its schemas must differ in type or in a constant, that of a required property; "anyOf" needs neither';
  for (const type of ['object', 'array', 'string', 'number', 'boolean', 'null']) {
    const found = branches.map((leaves) => leaves.filter((leaf) => allows(leaf, type)));
    const leaves = found.flat();
    const required = (leaves[0]?.required ?? []) as string[];
    if (found.filter(({ length }) => length > 0).length < 2 || differ(leaves)) continue;
    if (!required.some((name) => differ(leaves.map((leaf) => requiredProperty(leaf, name)))))
      throw new Error(why);
  }
  return '""';
}

function allows({ type: own, [VALUES]: values }: Schema, type: string): boolean {
  if (values !== undefined) return values.some((value) => isOfType(value, type));
  return own === undefined || own === type || (own === 'integer' && type === 'number');
}

function requiredProperty({ properties, required }: Schema, name: string): Schema {
  return Array.isArray(required) && required.includes(name) ? ((properties as Schema)[name] as Schema) : {};
}

/** Whether all have lists of constants, and none is in two of them. */
function differ(schemas: readonly Schema[]): boolean {
  const lists = schemas.map(({ [VALUES]: values }) => new Set(values?.map((value) => JSON.stringify(value))));
  const all = new Set(lists.flatMap((values) => [...values]));
  return lists.every(({ size }) => size > 0) && all.size === lists.reduce((sum, { size }) => sum + size, 0);
}
