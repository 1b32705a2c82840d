import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { SidaError } from '../../../src/errors.js';
import { Rules } from '../../../src/structured-output/json-strings.js';
import { checkedSchema, readSchema } from '../../../src/structured-output/schema.js';

function reasonOf(schema: unknown, closed = true): string {
  let text: string;
  try {
    text = checkedSchema(schema, 'response_format', { closed });
  } catch (error) {
    const { code, param, message } = error as SidaError;
    expect([code, param]).toEqual(['invalid_request', 'response_format']);
    return message;
  }
  // What takes longer, which the grammar threads do.
  try {
    readSchema(JSON.parse(text), { closed }).bodies(new Rules());
  } catch (error) {
    return (error as Error).message;
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
    ['numbers of two places', { type: 'number', multipleOf: 0.01 }],
    ['bounds with fractions', { type: 'number', minimum: 0.5, exclusiveMaximum: 2.25 }],
    ['bounds beyond 15 digits', { type: 'integer', minimum: -(2 ** 53) + 1, maximum: 2 ** 53 - 1 }],
    ...[z.uuid(), z.email(), z.iso.date(), z.iso.datetime({ offset: true, precision: 3 }), z.ipv6()].map(
      (type): [string, unknown] => ['a pattern of zod beside its format', z.toJSONSchema(type)],
    ),
    ['a pattern beside an unknown format', { type: 'string', format: 'nanoid', pattern: '^[a-z]{9}$' }],
    ['an unknown format', { type: 'string', format: 'binary' }],
    ['letters of Unicode', { type: 'string', pattern: '^\\p{Lu}[а-яё]+$' }],
    ['values, some of which are of its type', { type: 'string', enum: ['a', 1, null] }],
    ['the null of OpenAPI', { type: 'string', nullable: true }],
    ['the lists of older drafts', { type: 'array', items: [{ type: 'null' }], additionalItems: false }],
    ['names of any text', { type: 'object', propertyNames: { type: 'string' }, additionalProperties: {} }],
    ['an absolute reference', { $id: 'http://a/b', $defs: { c: {} }, $ref: 'http://a/b#/$defs/c' }],
    [
      'objects that have the properties of several',
      {
        $defs: { a: { type: 'object', properties: { x: {} }, required: ['x'] } },
        allOf: [{ $ref: '#/$defs/a' }, { properties: { y: { type: 'null' } } }],
      },
    ],
    [
      'a reference with percent signs',
      { $ref: '#/$defs/Box%5Bint%5D', $defs: { 'Box[int]': { type: 'object' } } },
    ],
    ['a reference with a slash in a name', { $ref: '#/$defs/a~1b~0c', $defs: { 'a/b~c': {} } }],
    ['a reference with an encoded tilde', { $ref: '#/$defs/a%7E1b', $defs: { 'a/b': {} } }],
    ['a reference to a name with a percent sign', { $ref: '#/$defs/50%', $defs: { '50%': {} } }],
    ['many levels', nested(47)],
    ['many properties', wide(2_000 - 1)],
  ])('may have %s', (_, schema) => {
    expect(reasonOf(schema)).toBe('accepted');
  });

  it.each<[string, unknown, RegExp]>([
    ['no object', 'string', /expected a JSON schema, found "string"/],
    ['false', false, /no value follows it/],
    ['an unknown type', { type: 'date' }, /at type .*expected one of string.*found "date"/],
    ['an unknown keyword', { type: 'object', contentSchema: {} }, /at contentSchema .*for the type object/],
    [
      'more properties than it names',
      { type: 'object', properties: { a: {}, b: {} }, minProperties: 3, additionalProperties: false },
      /at minProperties .*only 2 properties/,
    ],
    [
      'a required name that must be absent',
      { type: 'object', properties: { a: { not: {} } }, required: ['a'] },
      /at properties.a.* no value follows/,
    ],
    ['a number of other names', { type: 'object', minProperties: 2 }, /at minProperties .*other names/],
    [
      'names of a pattern beside others',
      { type: 'object', properties: { b: {} }, propertyNames: { pattern: 'a' } },
      /at propertyNames .*list of names/,
    ],
    ['no names', { type: 'object', propertyNames: false }, /at propertyNames .*list of names/],
    [
      'names of a pattern that must be there',
      { type: 'object', required: ['b'], patternProperties: { a: {} } },
      /at patternProperties .*beside "required"/,
    ],
    [
      'names of a pattern that another schema forbids',
      { allOf: [{ patternProperties: { a: {} } }, { additionalProperties: { type: 'null' } }] },
      /at allOf .*"additionalProperties" beside/,
    ],
    [
      'the pattern of another format',
      { type: 'string', format: 'date', pattern: z.toJSONSchema(z.uuid()).pattern },
      /at pattern .*no text matches it/,
    ],
    [
      'a pattern beside a format that no pattern follows',
      { format: 'iri', pattern: 'a' },
      /at format .*cannot follow "iri"/,
    ],
    [
      'null beside values that are none',
      { type: 'string', nullable: true, not: { type: 'null' } },
      /at nullable .*beside "not"/,
    ],
    [
      'many first items that may be missing',
      { type: 'array', prefixItems: Array(33).fill({}) },
      /at prefixItems .*leave out at most 32/,
    ],
    [
      'null in one part of several',
      { allOf: [{ type: 'string', nullable: true }, { minLength: 1 }] },
      /at allOf .*"nullable" in a part/,
    ],
    ['values that are no whole numbers', { not: { type: 'integer' } }, /at not .*leave out whole numbers/],
    ['values that are not of a format', { not: { format: 'date' } }, /at not.format .*cannot follow/],
    ['a lookahead in what repeats', { type: 'string', pattern: '^(a(?!b))*$' }, /at pattern .*within "\*"/],
    ['a lookbehind', { type: 'string', pattern: '(?<=a)b' }, /at pattern .*cannot follow "\(\?<="/],
    ['a very large automaton', { type: 'string', pattern: '^.{7000}$' }, /more than 6000 states/],
    ['a very long text', { type: 'string', maxLength: 100_001 }, /limit of 100000, found 100001/],
    [
      'a number of items that may be there',
      { type: 'array', contains: {}, maxContains: 2 },
      /at maxContains\..* no value follows/,
    ],
    [
      'fewer items than there must be',
      { type: 'array', contains: { const: 1 }, minContains: 3, maxContains: 2 },
      /at maxContains .*expected 3 to 100, found 2/,
    ],
    ['a constant beyond 53 bits', { const: { a: [2 ** 53] } }, /at const .*more than 53 bits/],
    [
      'a reference whose base drafts do not agree on',
      {
        $defs: { a: { $id: 'http://a/b', type: 'null' }, c: { $id: 'http://d/', $ref: 'b' } },
        $ref: '#/$defs/c',
      },
      /names no schema/,
    ],
    ['items that differ', { type: 'array', uniqueItems: true }, /at uniqueItems .*listed values/],
    [
      'many items that differ',
      { type: 'array', items: { enum: [1, 2, 3, 4, 5, 6, 7, 8, 9] }, uniqueItems: true },
      /at most 8 values, found 9/,
    ],
    ['multiples of nothing', { type: 'integer', multipleOf: 0 }, /at multipleOf .*found 0/],
    ['multiples of many units', { type: 'number', multipleOf: 0.123456789 }, /remainders are too many/],
    [
      'bounds without a multiple',
      { type: 'integer', multipleOf: 7, minimum: 1, maximum: 6 },
      /no multiple of/,
    ],
    ['a format that no pattern follows', { type: 'string', format: 'idn-email' }, /at format .*"idn-email"/],
    ['a keyword of another type', { type: 'string', minimum: 1 }, /cannot follow "minimum"/],
    ['a reference out of it', { $ref: 'https://example.org/a' }, /names no schema; expected one such as/],
    ['no common type', { allOf: [{ type: 'string' }, { type: 'integer' }] }, /at allOf.type .*no value/],
    [
      'items behind those of another part',
      { allOf: [{ prefixItems: [{ const: 1 }] }], items: { const: 2 } },
      /at allOf .*"items" beside/,
    ],
    ['a part that contains itself', { allOf: [{ $ref: '#' }] }, /at allOf .*more than 256 parts/],
    ['no value of its type', { type: 'string', enum: [1] }, /at enum .*none of its values/],
    [
      'a very long pattern',
      { type: 'string', pattern: '.'.repeat(9_000) },
      /9000 characters; the limit is 8000/,
    ],
    ['a word boundary', { type: 'string', pattern: '\\ba' }, /at pattern .*"\\b"/],
    ['kinds that are alike', { oneOf: [{ type: 'integer' }, { type: 'number' }] }, /must differ in type/],
    ['numbers that are alike', { oneOf: [{ const: 0 }, { const: -0 }] }, /no value follows any/],
    ['no values', { enum: [] }, /at enum .*expected a list/],
    ['bounds without a number', { type: 'integer', exclusiveMinimum: 3, maximum: 3 }, /leave no number/],
    ['a large bound', { type: 'number', minimum: 1e15 }, /leave no number of at most 15 digits/],
    ['lengths without a text', { type: 'string', minLength: 3, maxLength: 2 }, /"minLength" of 3 is above/],
    ['a pattern that is none', { type: 'string', pattern: '(' }, /at pattern .*Invalid regular expression/],
    [
      'a required name that is no property',
      { type: 'object', required: ['a'], additionalProperties: false },
      /"a" is not among the properties/,
    ],
    [
      'items that it does not describe',
      { type: 'array', prefixItems: [{}], minItems: 2 },
      /2 items are more than the 1/,
    ],
    ['too many levels', nested(48), /it is nested too deep/],
    [
      'a constant of very many levels',
      { const: JSON.parse('['.repeat(60_000) + ']'.repeat(60_000)) },
      /nested too deep/,
    ],
    ['too many schemas', wide(2_000), /more than 2000 schemas/],
    [
      'too many bytes',
      { description: 'x'.repeat(128 << 10) },
      /it has 131090 characters; the limit is 131072/,
    ],
  ])('may not have %s', (_, schema, reason) => {
    expect(reasonOf(schema)).toMatch(reason);
  });

  it('may have properties that are named as keywords', () => {
    const names = ['$ref', 'properties', 'required', 'type', 'const', 'enum', 'anyOf', '$defs', 'items', 'x'];
    const properties = Object.fromEntries(names.map((name) => [name, { type: 'null' }]));
    for (const closed of [true, false]) {
      expect(reasonOf({ type: 'object', properties, required: names }, closed)).toBe('accepted');
    }
  });
});
