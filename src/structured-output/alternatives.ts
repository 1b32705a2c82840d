/** What the reading of a schema and the check of its alternatives have in common, and that check. */

/** Constants of a schema that was read, which is JSON without them. */
export const VALUES = Symbol('values');
/** Marks a schema that names no type: values of others follow it, too, though no grammar writes them. */
export const IMPLIED = Symbol('implied');
export type Schema = { [keyword: string]: unknown; [VALUES]?: readonly unknown[]; [IMPLIED]?: true };

export function isSchema(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function isOfType(value: unknown, type: string): boolean {
  if (type === 'null') return value === null;
  if (type === 'array') return Array.isArray(value);
  if (type === 'object') return isSchema(value);
  return type === 'integer' ? Number.isInteger(value) : typeof value === type;
}

const TYPES = ['object', 'array', 'string', 'number', 'boolean', 'null'];
/** Required properties within each other that are compared. */
const MOST_LEVELS = 4;

/** Gives the leaves of a read schema. */
type Leaves = (schema: Schema) => Schema[];

/** Whether no value follows two of the schemas, as far as their types and constants tell. */
export function areApart(schemas: readonly Schema[], leaves: Leaves, levels = 0): boolean {
  const all = schemas.map(leaves);
  return all.every((own, at) =>
    all
      .slice(at + 1)
      .every((others) => own.every((one) => others.every((other) => differ(one, other, leaves, levels)))),
  );
}

function differ(one: Schema, other: Schema, leaves: Leaves, levels: number): boolean {
  const pairs = [
    [one, other],
    [other, one],
  ] as const;
  const shared = TYPES.filter((type) =>
    pairs.some(([own, second]) => allows(own, type) && (second[IMPLIED] || allows(second, type))),
  );
  if (shared.length === 0) return true;
  const [values, others] = [one, other].map((each) => each[VALUES]?.map((value) => JSON.stringify(value)));
  if (values !== undefined && others !== undefined) return values.every((value) => !others.includes(value));
  if (shared.some((type) => type !== 'object') || levels === MOST_LEVELS) return false;
  const [names, otherNames] = [one, other].map(({ required }) => (required ?? []) as string[]);
  const property = (schema: Schema, name: string) => (schema.properties as Schema)[name] as Schema;
  return names!.some(
    (name) =>
      otherNames!.includes(name) &&
      areApart([property(one, name), property(other, name)], leaves, levels + 1),
  );
}

function allows({ type: own, [VALUES]: values }: Schema, type: string): boolean {
  if (values !== undefined) return values.some((value) => isOfType(value, type));
  return own === undefined || own === type || (own === 'integer' && type === 'number');
}
