// Schemas and formats of the tests of other projects, and of what zod, Pydantic and OpenAI's client write.
import { readFileSync, rmSync } from 'node:fs';
import { brotliDecompressSync } from 'node:zlib';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { checkedSchema } from '../../../src/structure/schema.js';
import { CASES, casesOf, testCases } from '../../support/cases.js';
import { compiledSource } from '../../support/compiled-source.js';
import { allowedOf, bytesOf, END, type GrammarRun, grammarRun } from '../../support/grammar-run.js';

interface Case {
  id: string;
  schema: object;
  /** Values that the grammar must allow, and others that it must not. */
  valid?: unknown[];
  invalid?: unknown[];
}

let dist: string;
let run: GrammarRun;
beforeAll(async () => {
  dist = compiledSource();
  run = await grammarRun(dist);
});
afterAll(async () => {
  await run.threads.close();
  rmSync(dist, { recursive: true, force: true });
});

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
