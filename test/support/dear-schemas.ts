/** JSON schemas that are small and take long to read where the time is not in proportion to them. */

const listOf = <T>(count: number, of: (at: number) => T) => Array.from({ length: count }, (_, at) => of(at));
const named = <T>(count: number, of: (at: number) => T) =>
  Object.fromEntries(listOf(count, (at) => [`p${at}`, of(at)]));

/** `lists` times a "oneOf" of the same references to lists of numbers. */
export const alternatives = (lists: number, branches = 64, numbers = 220) => ({
  type: 'object',
  properties: named(lists, () => ({ oneOf: listOf(branches, (at) => ({ $ref: `#/$defs/p${at}` })) })),
  $defs: named(branches, (at) => ({ enum: listOf(numbers, (value) => at * numbers + value) })),
});

export const dots = (count: number) => ({ type: 'string', pattern: '.'.repeat(count) });

export const chain = (count: number) => ({
  $ref: '#/$defs/p0',
  $defs: { ...named(count, (at) => ({ $ref: `#/$defs/p${at + 1}` })), [`p${count}`]: { type: 'null' } },
});

/** An object that requires all of its properties, in their order or from the last. */
export const required = (count: number, backwards = false) => ({
  type: 'object',
  properties: named(count, () => ({ type: 'null' })),
  required: listOf(count, (at) => `p${backwards ? count - 1 - at : at}`),
});

/** Values that are checked against a list of types each. */
export const manyTypes = (types: number, values: number) => ({
  type: [...listOf(types, () => 'string'), 'null'],
  enum: listOf(values, () => null),
});

export const boundedNumbers = (count: number) => ({
  type: 'object',
  properties: named(count, () => ({ type: 'integer', minimum: -987654321987, maximum: 987654321987 })),
});

export const responseFormat = (schema: object) => ({
  type: 'json_schema',
  json_schema: { name: 'a', schema },
});

/** As JSON of a request, with whether a request may have it. */
export const DEAR_SCHEMAS: [what: string, schema: object, allowed: boolean][] = [
  ['many alternatives', alternatives(29), true],
  ['a pattern of many dots', dots(110_000), false],
  ['many types', manyTypes(12_000, 2_000), true],
  ['a chain of references', chain(1_900), false],
  ['required properties', required(1_900), true],
  ['required properties, backwards', required(1_900, true), true],
  ['bounded numbers', boundedNumbers(900), true],
];
