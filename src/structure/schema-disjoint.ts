/** Whether no value can follow two of some schemas, as far as their types and constants tell. */

type Schema = { [keyword: string]: unknown };

export function disjoint(schemas: readonly unknown[]): boolean {
  return schemas.every((a, at) => schemas.slice(at + 1).every((b) => differ(a, b)));
}

function differ(a: unknown, b: unknown): boolean {
  if (!isObject(a) || !isObject(b)) return false;
  return noneShared(typesOf(a), typesOf(b)) || noneShared(valuesOf(a), valuesOf(b)) || differInProperty(a, b);
}

/** A property that both require, with other constants in each. */
function differInProperty(a: Schema, b: Schema): boolean {
  const [own, other] = [requiredProperties(a), requiredProperties(b)];
  return [...own].some(([name, schema]) => noneShared(valuesOf(schema), valuesOf(other.get(name) ?? {})));
}

function requiredProperties({ required, properties }: Schema): Map<string, Schema> {
  if (!Array.isArray(required) || !isObject(properties)) return new Map();
  const named = required.map((name): [string, unknown] => [name, properties[name]]);
  return new Map(named.filter((entry): entry is [string, Schema] => isObject(entry[1])));
}

function typesOf(schema: Schema): string[] | undefined {
  const types = Array.isArray(schema.type) ? schema.type : [schema.type];
  if (types.includes(undefined)) return valuesOf(schema)?.map((value) => typeOfJson(JSON.parse(value)));
  return types.includes('number') ? [...types, 'integer'] : types;
}

function typeOfJson(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return Number.isInteger(value) ? 'integer' : typeof value;
}

function valuesOf({ const: only, enum: values }: Schema): string[] | undefined {
  if (only !== undefined) return [JSON.stringify(only)];
  return Array.isArray(values) ? values.map((value) => JSON.stringify(value)) : undefined;
}

function noneShared(a: readonly string[] | undefined, b: readonly string[] | undefined): boolean {
  if (a === undefined || b === undefined) return false;
  const other = new Set(b);
  return !a.some((each) => other.has(each));
}

function isObject(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
