import { describe, expect, it } from 'vitest';
import type { SidaError } from '../../../src/errors.js';
import { checkedSchema } from '../../../src/structure/schema-check.js';
import { SCHEMA_LIMITS } from '../../../src/structure/schema-limits.js';

function reasonOf(schema: unknown, closed = true): string {
  try {
    checkedSchema(schema, 'response_format', closed);
  } catch (error) {
    const { code, param, message } = error as SidaError;
    expect([code, param]).toEqual(['invalid_request', 'response_format']);
    return message;
  }
  return 'accepted';
}

const nested = (levels: number): object =>
  levels === 0 ? { type: 'null' } : { type: 'array', items: nested(levels - 1) };
const wide = (count: number) => ({
  type: 'object',
  properties: Object.fromEntries(Array.from({ length: count }, (_, at) => [`p${at}`, {}])),
});

describe('a JSON schema', () => {
  it.each<[string, unknown]>([
    ['an empty one', {}],
    ['notes', { title: 'a', description: 'b', type: 'string', default: 'x', examples: ['y'] }],
    ['all types', { type: ['string', 'number', 'integer', 'boolean', 'null', 'object', 'array'] }],
    ['references in a circle through properties', { type: 'object', properties: { next: { $ref: '#' } } }],
    [
      'a tree',
      {
        type: 'object',
        properties: { left: { $ref: '#/$defs/tree' }, right: { $ref: '#/$defs/tree' } },
        required: ['left', 'right'],
        $defs: { tree: { anyOf: [{ $ref: '#' }, { type: 'null' }] } },
      },
    ],
    [
      'a list that is required, of itself',
      {
        type: 'object',
        properties: { of: { type: 'array', items: { $ref: '#' } } },
        required: ['of'],
      },
    ],
    [
      'an object of itself, or nothing',
      { type: ['object', 'null'], properties: { a: { $ref: '#' } }, required: ['a'] },
    ],
    ['kinds told apart by a constant', { oneOf: [{ const: 1 }, { const: 2 }, { type: 'string' }] }],
    [
      'constants that are told apart by their type',
      {
        oneOf: [
          { const: 1 },
          { const: '1' },
          { const: [1] },
          { const: '[1]' },
          { const: null },
          { const: 'null' },
        ],
      },
    ],
    ['a format of numbers, which binds nothing', { type: 'integer', format: 'int32' }],
    ['lists whose items may be alike', { type: 'array', items: {}, uniqueItems: false }],
    ['objects of at least no property', { type: 'object', minProperties: 0 }],
    [
      'objects of as many properties as are required',
      { type: 'object', properties: { a: {}, b: {} }, required: ['a', 'a'], minProperties: 1 },
    ],
    ['integers that are multiples of one', { type: 'integer', multipleOf: 1 }],
    [
      'a reference with percent signs',
      { $ref: '#/$defs/Box%5Bint%5D', $defs: { 'Box[int]': { type: 'object' } } },
    ],
    ['a reference with a slash in a name', { $ref: '#/$defs/a~1b~0c', $defs: { 'a/b~c': {} } }],
    ['a reference with an encoded tilde', { $ref: '#/$defs/a%7E1b', $defs: { 'a/b': {} } }],
    ['a reference to a name with a percent sign', { $ref: '#/$defs/50%', $defs: { '50%': {} } }],
    ['many levels', nested(SCHEMA_LIMITS.depth)],
    ['many properties', wide(SCHEMA_LIMITS.schemas - 1)],
  ])('may have %s', (_, schema) => {
    expect(reasonOf(schema)).toBe('accepted');
  });

  it.each<[string, unknown, RegExp]>([
    ['no object', 'string', /expected a JSON schema, found "string"/],
    ['false', false, /expected a JSON schema, found false/],
    [
      'a class of thousands of characters',
      {
        type: 'string',
        pattern: `^[^${Array.from({ length: 3_000 }, (_, i) => String.fromCodePoint(0x4e00 + 2 * i)).join('')}]$`,
      },
      /a class has more than 256 ranges/,
    ],
    [
      'a pattern of many repetitions without an end',
      { type: 'string', pattern: `^${'.*'.repeat(65)}x$` },
      /more than 64 repetitions without an end/,
    ],
    [
      'more kinds than can be compared',
      { oneOf: Array.from({ length: 65 }, (_, i) => ({ const: i })) },
      /65 schemas are more than the limit of 64; "anyOf" has none/,
    ],
    ['an unknown type', { type: 'date' }, /at type .*expected one of string.*found "date"/],
    ['an unknown keyword', { type: 'object', minProperties: 1 }, /at minProperties .*for the type object/],
    [
      'more properties than are required',
      { type: 'object', properties: { a: {}, b: {} }, required: ['a'], minProperties: 2 },
      /at minProperties .*cannot follow "minProperties"/,
    ],
    ['items that differ', { type: 'array', uniqueItems: true }, /at uniqueItems .*for the type array/],
    ['multiples', { type: 'integer', multipleOf: 5 }, /at multipleOf .*for the type integer/],
    ['whole numbers by a multiple', { type: 'number', multipleOf: 1 }, /cannot follow "multipleOf"/],
    ['a keyword of another type', { type: 'string', minimum: 1 }, /cannot follow "minimum"/],
    [
      'a keyword beside a reference',
      { $defs: { a: {} }, $ref: '#/$defs/a', type: 'null' },
      /"type" beside "\$ref"/,
    ],
    ['a reference out of it', { $ref: 'https://example.org/a' }, /expected a reference within the schema/],
    [
      'a reference into a constant',
      { const: { a: {} }, $defs: { b: { $ref: '#/const/a' } } },
      /names no schema/,
    ],
    ['a circle', { anyOf: [{ $ref: '#' }, { type: 'null' }] }, /refers to itself/],
    [
      'a property that needs itself',
      { type: 'object', properties: { a: { $ref: '#' } }, required: ['a'] },
      /^The JSON schema cannot be used: a value of it could never end/,
    ],
    [
      'a way that has no end',
      {
        anyOf: [{ type: 'null' }, { $ref: '#/$defs/a' }],
        $defs: {
          a: { type: 'object', properties: { b: { $ref: '#/$defs/b' } }, required: ['b'] },
          b: { oneOf: [{ $ref: '#/$defs/a' }] },
        },
      },
      /at \$defs.a .*could never end/,
    ],
    [
      'items that need themselves',
      { type: 'array', prefixItems: [{ type: 'null' }], items: { $ref: '#' }, minItems: 2 },
      /could never end/,
    ],
    ['several of all', { allOf: [{}, {}] }, /only one schema of "allOf"/],
    [
      'kinds that are alike',
      { oneOf: [{ type: 'integer' }, { type: 'number' }] },
      /must differ in their types/,
    ],
    ['lists that are alike', { oneOf: [{ const: [1] }, { enum: [2, [1]] }] }, /must differ in their types/],
    ['numbers that are alike', { oneOf: [{ const: 0 }, { const: -0 }] }, /must differ in their types/],
    ['no values', { enum: [] }, /at enum .*expected a list/],
    ['a value of another type', { type: 'string', enum: ['a', 1] }, /1 is not of the type string/],
    ['bounds without a number', { type: 'integer', exclusiveMinimum: 3, maximum: 3 }, /leave no number/],
    ['a bound with a fraction', { type: 'number', minimum: 0.5 }, /only whole bounds, found 0.5/],
    ['a large bound', { type: 'number', minimum: 1e15 }, /a bound may be at most/],
    ['lengths without a text', { type: 'string', minLength: 3, maxLength: 2 }, /"minLength" of 3 is above/],
    [
      'many repetitions',
      { type: 'string', maxLength: 5000 },
      /5000 repetitions are more than the limit of 1000/,
    ],
    ['many repetitions of a pattern', { type: 'string', pattern: 'a{5000}' }, /5000 repetitions/],
    [
      'a pattern and a length',
      { type: 'string', pattern: 'a', maxLength: 2 },
      /only one of pattern, maxLength/,
    ],
    ['a pattern that is none', { type: 'string', pattern: '(' }, /at pattern .*Invalid regular expression/],
    ['a pattern with look-around', { type: 'string', pattern: '(?=a)b' }, /look-around/],
    ['a pattern with properties', { type: 'string', pattern: '\\p{L}' }, /"\\p" cannot be followed/],
    ['an unknown format', { type: 'string', format: 'regex' }, /at format .*found "regex"/],
    [
      'a required name that is no property',
      { type: 'object', required: ['a'] },
      /"a" is not among the properties/,
    ],
    [
      'items that it does not describe',
      { type: 'array', prefixItems: [{}], minItems: 2 },
      /2 items are more than the 1/,
    ],
    ['too many levels', nested(SCHEMA_LIMITS.depth + 1), /nested deeper than 24 levels/],
    [
      'a constant of very many levels',
      { const: JSON.parse('['.repeat(60_000) + ']'.repeat(60_000)) },
      /nested too deep/,
    ],
    ['too many schemas', wide(SCHEMA_LIMITS.schemas), /more than 2000 schemas/],
    [
      'too many bytes',
      { description: 'x'.repeat(SCHEMA_LIMITS.bytes) },
      /it has 131090 bytes; the limit is 131072/,
    ],
  ])('may not have %s', (_, schema, reason) => {
    expect(reasonOf(schema)).toMatch(reason);
  });

  it('may not be open beside names that no grammar can tell from others', () => {
    const schema = { type: 'object', properties: { größe: {} } };
    expect(reasonOf(schema)).toBe('accepted');
    expect(reasonOf(schema, false)).toMatch(/beside "größe"/);
    const long = { type: 'object', properties: { ['x'.repeat(SCHEMA_LIMITS.name + 1)]: {} } };
    expect(reasonOf(long)).toBe('accepted');
    expect(reasonOf(long, false)).toMatch(/more than 256 characters/);
  });

  it('may have properties that are named as keywords', () => {
    const names = ['$ref', 'properties', 'required', 'type', 'const', 'enum', 'anyOf', '$defs', 'items', 'x'];
    const properties = Object.fromEntries(names.map((name) => [name, { type: 'null' }]));
    for (const closed of [true, false]) {
      expect(reasonOf({ type: 'object', properties, required: names }, closed)).toBe('accepted');
    }
  });
});
