// Whatever tokens are drawn, an answer that a schema binds follows it.
import { isIPv6 } from 'node:net';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { checkedSchema } from '../../../src/structured-output/schema.js';
import {
  allowedOf,
  bytesOf,
  type GrammarRun,
  grammarRun,
  randomNumbers,
  randomText,
} from '../../support/grammar-run.js';

const leaf = { type: 'object', properties: { v: { type: 'boolean' } }, required: ['v'] };

const SCHEMAS: Record<string, object> = {
  'numbers with bounds': {
    type: 'object',
    properties: {
      a: { type: 'integer', minimum: -13, maximum: 207 },
      b: { type: 'number', minimum: 95, maximum: 1107 },
      c: { type: 'integer', exclusiveMinimum: 3, exclusiveMaximum: 6 },
      d: { type: 'number', exclusiveMaximum: 0 },
      e: { type: 'integer', minimum: 1000 },
      f: { type: 'number', minimum: -3, exclusiveMaximum: 4 },
      g: { type: 'number', exclusiveMinimum: 0, maximum: 1 },
      h: { type: 'integer', minimum: 0.5, maximum: 3.5 },
    },
    required: ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'],
  },
  'numbers with fractions as bounds': {
    type: 'object',
    properties: {
      a: { type: 'number', minimum: 0.25, exclusiveMaximum: 2.5 },
      b: { type: 'number', multipleOf: 0.01, minimum: -0.5, maximum: 0.5 },
      c: { type: 'integer', minimum: 2000, maximum: 2025 },
      d: { type: 'integer', minimum: -5, exclusiveMaximum: 2 ** 53 },
      e: { type: 'number', exclusiveMinimum: 999.99, maximum: 1000 },
    },
    required: ['a', 'b', 'c', 'd', 'e'],
  },
  'names of a pattern': {
    type: 'object',
    properties: {
      a: { type: 'object', patternProperties: { '^x_[a-z"]{1,3}$': { type: 'integer' } }, minProperties: 1 },
      b: {
        type: 'object',
        patternProperties: { '\\d': { anyOf: [{ $ref: '#/properties/a' }, { type: 'null' }] } },
        additionalProperties: false,
      },
      c: { type: 'object', propertyNames: { maxLength: 2 }, additionalProperties: { type: 'boolean' } },
      d: { type: 'object', propertyNames: { format: 'uuid' }, minProperties: 1, maxProperties: 2 },
    },
    required: ['a', 'b', 'c', 'd'],
  },
  'names that must be there, and others that must not': {
    type: 'object',
    properties: { a: false, b: { type: 'null' } },
    required: ['c', 'd"e'],
    additionalProperties: { type: 'integer' },
  },
  'conditions that bind all values': {
    type: 'object',
    properties: {
      a: { not: { type: ['object', 'array', 'null'] }, maxLength: 3 },
      b: { not: { not: { type: 'integer' } } },
      c: { if: false, else: { enum: [1, 2] } },
      d: { type: 'null', else: false, minContains: 3 },
    },
    required: ['a', 'b', 'c', 'd'],
  },
  'references by anchors and identifiers': {
    $id: 'http://example.com/root',
    type: 'object',
    properties: {
      a: { $ref: '#small' },
      b: { $ref: 'other' },
      c: { $ref: 'http://example.com/other#/$defs/inner' },
      d: { type: 'array', items: { $ref: '/other#deep' }, maxItems: 2 },
    },
    required: ['a', 'b', 'c', 'd'],
    $defs: {
      one: { $anchor: 'small', type: 'integer', minimum: 1, maximum: 9 },
      two: {
        $id: 'other',
        enum: ['x', 'y'],
        $defs: { inner: { $ref: '#deep' }, 'a/b %': { $anchor: 'deep', type: 'boolean' } },
      },
    },
  },
  multiples: {
    type: 'object',
    properties: {
      a: { type: 'number', multipleOf: 0.5 },
      b: { type: 'number', multipleOf: 0.25, minimum: -3, maximum: 3 },
      c: { type: 'integer', multipleOf: 7, minimum: 100 },
      d: { type: 'integer', multipleOf: 1.5, exclusiveMinimum: 0 },
      e: { type: 'number', multipleOf: 10 },
    },
    required: ['a', 'b', 'c', 'd', 'e'],
  },
  'patterns with lengths': {
    type: 'object',
    properties: {
      a: { type: 'string', pattern: '^[a-z]+$', minLength: 3, maxLength: 5 },
      b: { type: 'string', pattern: '^id-\\d*$', maxLength: 5, minLength: 5 },
      c: { type: 'string', format: 'date', maxLength: 10 },
      d: { type: 'string', pattern: '^(?:ab|c)$', minLength: 1 },
      e: { type: 'string', pattern: '\\S', minLength: 1 },
    },
    required: ['a', 'c', 'd', 'e'],
  },
  'lists of different constants': {
    type: 'object',
    properties: {
      a: { type: 'array', items: { enum: ['x', 'y', 'z'] }, uniqueItems: true },
      b: { type: 'array', items: { enum: [1, 2, 3, 4] }, uniqueItems: true, minItems: 2, maxItems: 3 },
      c: { type: 'array', items: { type: 'boolean' }, uniqueItems: true, maxItems: 1 },
    },
    required: ['a', 'b', 'c'],
  },
  'numbers of properties, and listed names': {
    type: 'object',
    properties: {
      a: { type: 'object', additionalProperties: { type: 'null' }, minProperties: 1, maxProperties: 2 },
      b: {
        type: 'object',
        properties: { x: {}, y: {}, z: {} },
        additionalProperties: false,
        minProperties: 2,
      },
      d: { type: 'object', properties: { x: { type: 'null' }, y: { not: {} }, z: false } },
      c: { type: 'object', propertyNames: { enum: ['p', 'q'] }, additionalProperties: { type: 'integer' } },
    },
    required: ['a', 'b', 'c', 'd'],
  },
  'schemas that hold together': {
    $defs: { base: { type: 'object', properties: { n: { type: 'integer', minimum: 0 } }, required: ['n'] } },
    $ref: '#/$defs/base',
    properties: { n: { maximum: 5 }, t: { allOf: [{ type: 'string' }, { minLength: 2 }, { maxLength: 3 }] } },
    required: ['t'],
    anyOf: [
      { properties: { k: { const: 'a' } }, required: ['k'] },
      { properties: { l: { enum: [1, 2] } }, required: ['l'] },
    ],
    unevaluatedProperties: false,
  },
  'letters beyond ASCII': {
    type: 'object',
    properties: {
      a: { type: 'string', pattern: '^[а-яё]{2}$' },
      b: { type: 'string', pattern: '^\\p{Lu}\\S$' },
      c: { type: 'string', pattern: '^[^\\u0000-\\u00ff]{1,2}$' },
      d: { type: 'string', pattern: '^(?:ü|😀|漢字){1,2}$' },
    },
    required: ['a', 'b', 'c', 'd'],
  },
  'objects of several schemas, and the null of OpenAPI': {
    $defs: { named: { type: 'object', properties: { n: { type: 'boolean' } }, required: ['n'] } },
    allOf: [
      { $ref: '#/$defs/named' },
      { properties: { x: { type: 'integer', maximum: 3, nullable: true } }, required: ['x'] },
    ],
  },
  'texts with lengths': {
    type: 'object',
    properties: {
      a: { type: 'string', minLength: 2, maxLength: 5 },
      b: { type: 'string', maxLength: 0 },
      c: { type: 'string', pattern: '^[a-c]{2,3}-\\d+(x|yz)?$' },
      d: { type: 'string', pattern: '^a|b$' },
      e: { type: 'string', pattern: '^[^a-z]{3}.[\\s"\\\\]$' },
    },
    required: ['a', 'b', 'c', 'd', 'e'],
  },
  'texts that have a match': { type: 'string', pattern: 'x{2}' },
  'optional properties of any order of presence': {
    type: 'object',
    properties: {
      a: { type: 'null' },
      b: { type: 'boolean' },
      c: { enum: ['x', 'y"z', 3, null] },
      d: { const: { k: [1] } },
    },
    required: ['b'],
  },
  'properties that the schema does not name': {
    type: 'object',
    properties: { a: { type: 'integer' } },
    required: ['a'],
    additionalProperties: { type: 'boolean' },
  },
  lists: {
    type: 'object',
    properties: {
      a: { type: 'array', items: { type: 'integer' }, minItems: 2, maxItems: 4 },
      b: { type: 'array', prefixItems: [{ type: 'boolean' }, { type: 'null' }], items: false },
      c: { type: 'array', items: { type: 'array', items: { enum: [1, 2] }, maxItems: 2 }, maxItems: 2 },
      d: { type: 'array', maxItems: 0 },
    },
    required: ['a', 'b', 'c', 'd'],
  },
  references: {
    $defs: {
      leaf,
      node: { anyOf: [{ $ref: '#/$defs/leaf' }, { $ref: '#/$defs/inner' }] },
      inner: { type: 'object', properties: { next: { $ref: '#/$defs/node' } }, required: ['next'] },
    },
    $ref: '#/$defs/node',
  },
  'references that are encoded': {
    type: 'object',
    properties: { a: { $ref: '#/$defs/Box%5Bint%5D' }, b: { $ref: '#/$defs/c~1d' } },
    required: ['a', 'b'],
    minProperties: 2,
    $defs: { 'Box[int]': leaf, 'c/d': { type: 'array', items: { type: 'null' }, uniqueItems: false } },
  },
  'a reference to the whole': {
    type: 'object',
    properties: { v: { type: 'integer' }, child: { anyOf: [{ $ref: '#' }, { type: 'null' }] } },
    required: ['v', 'child'],
  },
  'one of several kinds': {
    oneOf: [
      {
        type: 'object',
        properties: { kind: { const: 'a' }, n: { type: 'integer' } },
        required: ['kind', 'n'],
      },
      {
        type: 'object',
        properties: { kind: { const: 'b' }, t: { type: 'boolean' } },
        required: ['kind', 't'],
      },
      { type: 'boolean' },
    ],
  },
  'types side by side': { type: ['integer', 'null', 'boolean'], minimum: 3 },
  'a single schema of all': { allOf: [leaf] },
  'an object without properties': { type: 'object' },
  'names that need escapes': {
    type: 'object',
    properties: {
      'a "quoted"\n\\name': { type: 'boolean' },
      ü: { type: 'null' },
      '[ ]*': { type: 'integer' },
    },
    required: ['a "quoted"\n\\name', 'ü', '[ ]*'],
  },
  formats: {
    type: 'object',
    properties: {
      a: { type: 'string', format: 'date' },
      b: { type: 'string', format: 'uuid' },
      c: { type: 'string', format: 'ipv4' },
      d: { type: 'string', format: 'ipv6' },
      e: { type: 'string', format: 'duration' },
    },
    required: ['a', 'b', 'c', 'd', 'e'],
  },
};

const ajv = new Ajv2020({
  strict: false,
  formats: {
    date: /^\d{4}-\d\d-\d\d$/,
    uuid: /^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/i,
    ipv6: isIPv6,
    duration:
      /^P(?!$)(\d+W|(\d+Y(\d+M(\d+D)?)?|\d+M(\d+D)?|\d+D)?(T(?=\d)(\d+H(\d+M(\d+S)?)?|\d+M(\d+S)?|\d+S)?)?)$/,
    ipv4: (text: string) =>
      text.split('.').length === 4 &&
      text.split('.').every((part) => /^\d{1,3}$/.test(part) && Number(part) < 256),
  },
});

describe('answers that follow a schema', () => {
  let run: GrammarRun;
  beforeAll(async () => {
    run = await grammarRun();
  });
  afterAll(() => run.threads.close());

  it.each(Object.entries(SCHEMAS))('have %s', async (_, schema) => {
    const validate = ajv.compile(schema);
    const grammar = {
      kind: 'json' as const,
      schema: checkedSchema(schema, 'x', { closed: true }),
      closed: true,
    };
    const texts = new Set<string>();
    let ended = 0;
    for (let seed = 1; seed <= 25; seed += 1) {
      const matcher = await run.open(grammar, seed);
      const text = randomText(matcher, randomNumbers(seed));
      run.matchers.endItem(seed);
      if (text === null) continue;
      ended += 1;
      texts.add(text);
      expect(() => JSON.parse(text), text).not.toThrow();
      expect(validate(JSON.parse(text)), `${text}\n${JSON.stringify(validate.errors)}`).toBe(true);
    }
    expect(ended).toBeGreaterThan(20);
    expect(run.matchers.count).toBe(0);
    if (JSON.stringify(schema) !== '{"type":"object"}') expect(texts.size).toBeGreaterThan(1);
  });

  it('have names without quotation marks inside, also beside a property that has one', async () => {
    const schema = {
      type: 'object',
      properties: { 'b"x': { type: 'null' }, 'c\\': { type: 'null' } },
      additionalProperties: { type: 'boolean' },
    };
    const grammar = {
      kind: 'json' as const,
      schema: checkedSchema(schema, 'x', { closed: true }),
      closed: true,
    };
    for (const begun of ['{"b"', '{"c"']) {
      const matcher = await run.open(grammar);
      for (const id of bytesOf(begun)) {
        expect(allowedOf(matcher)).toContain(id);
        matcher.take(id);
      }
      expect(allowedOf(matcher)).toEqual(bytesOf(':'));
    }
    run.matchers.endItem(0);
  });

  it('have properties of their own where objects are open', async () => {
    const grammar = { kind: 'json' as const, schema: '{"type":"object"}', closed: false };
    const texts = [];
    for (let seed = 1; seed <= 30; seed += 1)
      texts.push(randomText(await run.open(grammar, seed), randomNumbers(seed)));
    const objects = texts.filter((text) => text !== null).map((text) => JSON.parse(text) as object);
    expect(objects.length).toBeGreaterThan(5);
    expect(objects.some((object) => Object.keys(object).length > 0)).toBe(true);
  });
});
