// Schemas and formats of the tests of other projects, and of what zod, Pydantic and OpenAI's client write.
import { readFileSync } from 'node:fs';
import { brotliDecompressSync } from 'node:zlib';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { z } from 'zod';
import { checkedSchema } from '../../../src/structured-output/schema.js';
import { CASES, casesOf, testCases } from '../../support/cases.js';
import { allowedOf, bytesOf, END, type GrammarRun, grammarRun } from '../../support/grammar-run.js';

interface Case {
  id: string;
  schema: object;
  /** Values that the grammar must allow, and others that it must not. */
  valid?: unknown[];
  invalid?: unknown[];
}

let run: GrammarRun;
beforeAll(async () => {
  run = await grammarRun();
});
afterAll(() => run.threads.close());

/** As the grammars write it: on one line, with ", " and ": " between its parts. */
function jsonText(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(jsonText).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = Object.entries(value).map(([name, own]) => `${JSON.stringify(name)}: ${jsonText(own)}`);
  return `{${members.join(', ')}}`;
}

const allows = (schema: string, value: unknown) => allowsText(schema, jsonText(value));

async function allowsText(schema: string, text: string): Promise<boolean> {
  const matcher = await run.open({ kind: 'json', schema, closed: false });
  const ids = [...bytesOf(text), END];
  const fits = ids.every((id) => {
    const allowed = allowedOf(matcher).includes(id);
    if (allowed && id !== END) matcher.take(id);
    return allowed;
  });
  run.matchers.endItem(0);
  return fits;
}

const checked = (schema: unknown) => checkedSchema(schema, 'x', { closed: false });

async function check({ schema, valid = [], invalid = [] }: Case): Promise<void> {
  const text = checked(schema);
  for (const value of valid) expect(await allows(text, value), jsonText(value)).toBe(true);
  for (const value of invalid) expect(await allows(text, value), jsonText(value)).toBe(false);
}

testCases('schemas', casesOf<Case>('peers/schemas.jsonl'), check, {
  'schema: pydantic set': 'no grammar can tell that free texts differ, and it is refused by name',
});
it.each<[string, object, string[], string[]]>([
  [
    'first items that may be missing',
    { type: 'array', prefixItems: [{ type: 'boolean' }, { type: 'null' }], items: { type: 'integer' } },
    ['[]', '[true]', '[true, null]', '[true, null, 1]'],
    ['[null]', '[true, 1]', '[true, null, null]'],
  ],
  [
    'first items, of which one may be missing',
    { prefixItems: [{ type: 'boolean' }, { type: 'null' }], items: false, minItems: 1 },
    ['[true]', '[true, null]'],
    ['[]', '[true, null, 1]'],
  ],
  ['whole numbers', { type: 'integer' }, ['-9223372036854775808', '1234567890123456789'], ['1.0']],
  [
    'whole numbers of 64 bits',
    { type: 'integer', minimum: -(2 ** 63), maximum: 2 ** 63 },
    ['-9223372036854770000', '9223372036854770000', '9007199254740993'],
    ['-9223372036854775809', '9223372036854775808'],
  ],
  [
    "Pydantic's HttpUrl",
    { type: 'string', format: 'uri', minLength: 1, maxLength: 2083 },
    ['"https://a.example:80/b%20c?d=e#f"'],
    ['""', '"https://"', `"https://a/${'a'.repeat(2083)}"`],
  ],
  [
    'addresses of email with a length',
    { type: 'string', format: 'email', maxLength: 254 },
    ['"first.last+tag@mail.example.com"'],
    ['"a"', `"${'a'.repeat(250)}@b.co"`],
  ],
  [
    'whole numbers of 53 bits',
    { type: 'integer', minimum: 0, maximum: 2 ** 53 - 1 },
    ['9007199254740991'],
    ['9007199254740992', '12345678901234567'],
  ],
  [
    "zod's durations, whose pattern looks ahead",
    z.toJSONSchema(z.iso.duration()),
    ['"P1DT2H"', '"P3W"', '"PT5M"'],
    ['"P"', '"PT"', '"P1WT1H"'],
  ],
  ["zod's emoji", z.toJSONSchema(z.emoji()), ['"😀"', '"🇰🇮"'], ['"1"', '""', '"a"']],
  ["zod's hosts", z.toJSONSchema(z.hostname()), ['"mail.example.com"'], ['"-a"', '"a..b"', '"a."']],
  [
    'texts with a beginning and an end',
    z.toJSONSchema(z.string().startsWith('ab').endsWith('bc')),
    ['"abc"', '"ab bc"'],
    ['"ab"', '"bc"', '"abcd"'],
  ],
  [
    'a pattern of two repeated parts with a length',
    { type: 'string', pattern: '^[a-z]+(-[a-z]+)*$', maxLength: 5 },
    ['"a"', '"ab-cd"'],
    ['"abc-de"', '"a-"', '""'],
  ],
  ['a length without a pattern', { type: 'string', minLength: 2, maxLength: 1_500 }, ['"a\\n"'], ['"😀"']],
  [
    "Pydantic's decimals",
    { anyOf: [{ type: 'number' }, { type: 'string', pattern: '^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$' }] },
    ['1.5', '"1.5"', '"-.5"'],
    ['"-"', '"."', '"1e5"', 'true'],
  ],
  [
    'a pattern and what it does not match',
    { type: 'string', pattern: '^[ab]+$', not: { pattern: 'aa' } },
    ['"abab"', '"b"'],
    ['"baab"', '"c"'],
  ],
  [
    'a condition on a kind',
    {
      type: 'object',
      properties: { kind: { enum: ['a', 'b'] }, x: { type: 'integer' }, y: { type: 'null' } },
      required: ['kind'],
      additionalProperties: false,
      if: { properties: { kind: { const: 'a' } } },
      // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON schemas
      then: { required: ['x'] },
      else: { required: ['y'] },
    },
    ['{"kind": "a", "x": 1}', '{"kind": "b", "y": null}', '{"kind": "b", "x": 1, "y": null}'],
    ['{"kind": "a"}', '{"kind": "b", "x": 1}', '{"kind": "c", "x": 1}'],
  ],
  [
    'a condition for each of eight kinds',
    {
      type: 'object',
      properties: {
        kind: { enum: [...'abcdefgh'] },
        ...Object.fromEntries([...'ABCDEFGH'].map((name) => [name, {}])),
      },
      required: ['kind'],
      additionalProperties: false,
      allOf: [...'abcdefgh'].map((kind) => ({
        if: { properties: { kind: { const: kind } } },
        // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON schemas
        then: { required: [kind.toUpperCase()] },
      })),
    },
    ['{"kind": "a", "A": 1}', '{"kind": "h", "B": 1, "H": null}'],
    ['{"kind": "a"}', '{"kind": "h", "B": 1}', '{"kind": "i", "A": 1}'],
  ],
  [
    'properties that need others',
    {
      type: 'object',
      properties: { card: { type: 'integer' }, address: { type: 'null' } },
      additionalProperties: false,
      dependentRequired: { card: ['address'] },
    },
    ['{}', '{"address": null}', '{"card": 1, "address": null}'],
    ['{"card": 1}'],
  ],
  [
    'properties that need a schema',
    {
      type: 'object',
      properties: { a: {} },
      dependentSchemas: { a: { properties: { b: { type: 'null' } }, required: ['b'] } },
    },
    ['{}', '{"c": 1}', '{"a": 1, "b": null}'],
    ['{"a": 1}', '{"a": 1, "b": 2}'],
  ],
  [
    'names of several patterns',
    {
      type: 'object',
      properties: { id: { type: 'null' } },
      patternProperties: { '^a': { type: 'integer' }, z$: { minimum: 5 } },
      additionalProperties: false,
    },
    ['{"ab": 1}', '{"az": 7, "bz": 5.5}', '{"id": null}', '{"bz": "x"}'],
    ['{"az": 3}', '{"az": 5.5}', '{"c": 1}', '{"id": 1}'],
  ],
  [
    'one of several that overlap',
    {
      oneOf: [
        { type: 'number', maximum: 3 },
        { type: 'number', minimum: 2 },
      ],
    },
    ['1', '3.5'],
    ['3', '2.5', '"a"'],
  ],
  [
    'one of several of which no type is named',
    { oneOf: [{ minLength: 2, maxLength: 1 }, { pattern: '^a' }] },
    ['"a"'],
    ['2', '{}', 'null', '"b"'],
  ],
  [
    'kinds within kinds',
    z.toJSONSchema(
      z.discriminatedUnion('k', [
        z.object({ k: z.literal('a') }),
        z.discriminatedUnion('t', [
          z.object({ k: z.literal('b'), t: z.literal(1) }),
          z.object({ k: z.literal('b'), t: z.literal(2) }),
        ]),
      ]),
    ),
    ['{"k": "a"}', '{"k": "b", "t": 2}'],
    ['{"k": "b"}', '{"k": "a", "t": 1}'],
  ],
  [
    'two choices together',
    {
      type: 'object',
      properties: { a: { type: 'null' }, b: { type: 'null' }, c: { type: 'null' } },
      additionalProperties: false,
      allOf: [
        { anyOf: [{ required: ['a'] }, { required: ['b'] }] },
        { anyOf: [{ required: ['b'] }, { required: ['c'] }] },
      ],
    },
    ['{"b": null}', '{"a": null, "c": null}'],
    ['{"a": null}', '{"c": null}', '{}'],
  ],
  ['values that are not of a type', { minLength: 2 }, ['"ab"', '1', '[]', '{"a": 1}', 'null'], ['"a"']],
  [
    'values that are no longer possible',
    { type: 'object', properties: { a: { allOf: [{ type: 'null' }, { type: 'string' }] }, b: {} } },
    ['{}', '{"b": 1}'],
    ['{"a": null}', '{"a": "x"}'],
  ],
  [
    'times',
    { type: 'string', format: 'date-time' },
    ['"1998-12-31T23:59:60Z"', '"1998-12-31t23:59:60.5+00:00"', '"1999-01-01T05:29:59z"'],
    ['"1998-12-31T22:59:60Z"', '"1998-12-31T23:59:60+01:00"'],
  ],
  [
    'addresses',
    { type: 'string', format: 'ipv6' },
    ['"::ffff:1.2.3.4"', '"1:2:3:4:5:6:1.2.3.4"'],
    ['"1::2:3:4:5:6:1.2.3.4"', '"1.2.3.4"'],
  ],
  [
    'lists with an item that must be there',
    { type: 'array', items: { type: 'integer' }, contains: { minimum: 5 } },
    ['[5]', '[1, 9, 2]'],
    ['[]', '[1]', '["a", 5]'],
  ],
  [
    'lists with two such items, and none of another kind',
    { type: 'array', contains: { const: 'a' }, minContains: 2, not: { contains: { const: 'b' } } },
    ['["a", 1, "a"]'],
    ['["a"]', '["a", "b", "a"]', '["b"]'],
  ],
  [
    'lists with at most so many of such items',
    {
      type: 'array',
      items: { type: ['string', 'null'] },
      contains: { type: 'string' },
      minContains: 2,
      maxContains: 3,
    },
    ['["a", "b"]', '[null, "a", null, "b", "c", null]'],
    ['["a", null]', '["a", "b", null, "c", "d"]', '[]', '["a", "b", 1]'],
  ],
  ['long lists', { type: 'array', items: { const: 1 }, maxItems: 5_000 }, ['[1, 1]'], ['[2]']],
])('a grammar of %s', async (_, schema, right, wrong) => {
  const text = checked(schema);
  for (const own of right) expect(await allowsText(text, own), own).toBe(true);
  for (const own of wrong) expect(await allowsText(text, own), own).toBe(false);
});

testCases('formats', casesOf<Case>('peers/formats.jsonl'), check);

interface Group {
  id: string;
  schema: unknown;
  /** Values, and whether they follow the schema. */
  tests: [unknown, boolean][];
}

/** Groups whose schemas are accepted, by draft. */
const ACCEPTED: Readonly<Record<string, string[]>> = JSON.parse(
  readFileSync(new URL('json-schema/accepted.json', CASES), 'utf8'),
);

/**
 * A schema that is refused by name is argued by the reason, unless it is one of the accepted ones. No value that breaks
 * one that is accepted can be written.
 */
async function checkGroup({ id, schema, tests }: Group, accepted: ReadonlySet<string>) {
  let text: string;
  try {
    text = checked(schema);
    const found = await run.prepare({ kind: 'json', schema: text, closed: false });
    if (!('thread' in found)) throw found;
    found.release();
  } catch (error) {
    const { message } = error as Error;
    if (accepted.has(id) || !/The JSON schema.* cannot be used: /.test(message)) throw error;
    return message;
  }
  expect(accepted, 'accepted.json lists all that is accepted').toContain(id);
  for (const [value, valid] of tests)
    if (!valid) expect(await allows(text, value), `the schema allows ${jsonText(value)}`).toBe(false);
  return undefined;
}

/** Draft 7 lets validators check them; the newest draft calls them notes, which they are here. */
const CONTENT = [
  'optional/content: validation of string-encoded content based on media type',
  'optional/content: validation of binary string-encoding',
  'optional/content: validation of binary-encoded media type documents',
];
const NOTES = Object.fromEntries(
  CONTENT.map((id) => [id, '"contentEncoding" and "contentMediaType" are notes']),
);

for (const draft of ['2020-12', '7']) {
  const packed = readFileSync(new URL(`json-schema/${draft}.jsonl.br`, CASES));
  const lines = brotliDecompressSync(packed).toString().trim().split('\n');
  const groups = lines.map((line) => JSON.parse(line) as Group);
  const accepted = new Set(ACCEPTED[draft]);
  const check = (group: Group) => checkGroup(group, accepted);
  testCases(`JSON-Schema-Test-Suite, draft ${draft}`, groups, check, draft === '7' ? NOTES : {});
}
