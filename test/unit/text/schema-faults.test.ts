import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { nearest } from '../../../src/text/nearest.js';
import { checkAgainst, issuesOf } from '../../../src/text/schema-faults.js';

const SCHEMA = z.strictObject({
  text: z.string().min(1).max(5).optional(),
  long: z.string().min(3).optional(),
  count: z.int().min(2).max(9).optional(),
  share: z.number().gt(0).lt(1).optional(),
  half: z.number().multipleOf(0.5).optional(),
  flag: z.boolean().optional(),
  list: z.array(z.string()).min(1).max(2).optional(),
  pair: z.array(z.string()).min(2).optional(),
  kind: z.enum(['a', 'b', 'c']).optional(),
  one: z.literal(1).optional(),
  id: z.uuid().optional(),
  shape: z.string().regex(/^x$/).optional(),
  either: z.union([z.string(), z.boolean()]).optional(),
  inner: z.strictObject({ deep: z.number() }).optional(),
  map: z.record(z.string(), z.number()).optional(),
  named: z.record(z.string().regex(/^a/), z.number()).optional(),
  two: z.tuple([z.string(), z.string()]).optional(),
  code: z.string().length(3).optional(),
  begun: z.string().startsWith('a').optional(),
  ended: z.string().endsWith('z').optional(),
  holds: z.string().includes('-').optional(),
  mail: z.email().optional(),
  any: z.custom((value) => value === 1).optional(),
});

describe('the message of a fault', () => {
  it.each<[value: unknown, path: string, message: string]>([
    [[], '', 'Expected an object, but got a list'],
    ['a', '', 'Expected an object, but got "a"'],
    [null, '', 'Expected an object, but got null'],
    [{ text: 7 }, 'text', 'Expected a text, but got 7'],
    [{ text: '' }, 'text', 'Expected a text that is not empty'],
    [{ text: 'abcdef' }, 'text', 'Expected a text of at most 5 characters, but got 6'],
    [{ long: 'a' }, 'long', 'Expected a text of at least 3 characters, but got 1'],
    [{ count: 1.5 }, 'count', 'Expected a whole number, but got 1.5'],
    [{ count: 1 }, 'count', 'Expected a number of at least 2, but got 1'],
    [{ count: 10 }, 'count', 'Expected a number of at most 9, but got 10'],
    [{ count: 1e30 }, 'count', 'Expected a number of at most 9, but got 1e+30'],
    [{ count: -1e30 }, 'count', 'Expected a number of at least 2, but got -1e+30'],
    [{ count: '3' }, 'count', 'Expected a number, but got "3"'],
    [{ share: 0 }, 'share', 'Expected a number of more than 0, but got 0'],
    [{ share: 1 }, 'share', 'Expected a number of less than 1, but got 1'],
    [{ half: 0.3 }, 'half', 'Expected a multiple of 0.5, but got 0.3'],
    [{ flag: 'yes' }, 'flag', 'Expected true or false, but got "yes"'],
    [{ flag: 'x'.repeat(99) }, 'flag', 'Expected true or false, but got a text of 99 characters'],
    [{ list: 'a' }, 'list', 'Expected a list, but got "a"'],
    [{ list: [] }, 'list', 'Expected a list of at least 1 entry, but got 0'],
    [{ list: ['a', 'b', 'c'] }, 'list', 'Expected a list of at most 2 entries, but got 3'],
    [{ list: ['a', {}] }, 'list.1', 'Expected a text, but got an object'],
    [{ kind: 'd' }, 'kind', 'Expected "a", "b" or "c", but got "d"'],
    [{ one: 2 }, 'one', 'Expected 1, but got 2'],
    [{ id: 'x' }, 'id', 'Expected a UUID, but got "x"'],
    [{ shape: 'y' }, 'shape', 'Expected a text that matches /^x$/, but got "y"'],
    [{ begun: 'b' }, 'begun', 'Expected a text that begins with "a", but got "b"'],
    [{ ended: 'b' }, 'ended', 'Expected a text that ends with "z", but got "b"'],
    [{ holds: 'b' }, 'holds', 'Expected a text that contains "-", but got "b"'],
    [{ mail: 'b' }, 'mail', 'Expected a text of the form email, but got "b"'],
    [{ code: 'ab' }, 'code', 'Expected a text of 3 characters, but got 2'],
    [{ two: ['a', 'b', 'c'] }, 'two', 'Expected a list of at most 2 entries, but got 3'],
    [{ named: { b: 1 } }, 'named.b', 'Expected a text that matches /^a/, but got "b"'],
    [{ any: 2 }, 'any', 'Expected another value than 2'],
    [{ either: 7 }, 'either', 'Expected a value of another kind than 7'],
    [{ inner: {} }, 'inner.deep', 'Expected a number, but got nothing'],
    [{ map: { a: 'b' } }, 'map.a', 'Expected a number, but got "b"'],
    [{ txet: 'a' }, '', 'Unknown field "txet"; did you mean "text"?'],
    [{ inner: { deep: 1, other: 2 } }, 'inner', 'Unknown field "other"; the fields are deep'],
  ])('%j', (value, path, message) => {
    const checked = checkAgainst(SCHEMA, value);
    if ('data' in checked) throw new Error('the value was accepted');
    expect([checked.fault.path.join('.'), checked.fault.message]).toEqual([path, message]);
  });

  it('names a field of a wrong name before one that is missing', () => {
    const schema = z.strictObject({ prompt: z.union([z.string(), z.number()]) });
    expect(checkAgainst(schema, { promt: 'a' })).toMatchObject({
      fault: { message: 'Unknown field "promt"; did you mean "prompt"?', unknown: 'promt', missing: false },
    });
    expect(checkAgainst(schema, {})).toMatchObject({ fault: { path: ['prompt'], missing: true } });
  });

  it('is that of the schema where it has one', () => {
    const schema = z.object({ a: z.string({ error: 'Expected a name' }) });
    expect(checkAgainst(schema, {})).toMatchObject({ fault: { message: 'Expected a name', missing: true } });
  });
});

// A code that zod adds fails the build: describe would end without a message.
it.each<[code: string, schema: z.ZodType, value: unknown, message: string]>([
  ['invalid_type', z.string(), 1, 'Expected a text, but got 1'],
  ['too_big', z.set(z.number()).max(1), new Set([1, 2]), 'Expected at most 1 entry'],
  ['too_small', z.string().min(2), 'a', 'Expected a text of at least 2 characters, but got 1'],
  ['invalid_format', z.uuid(), 'a', 'Expected a UUID, but got "a"'],
  ['not_multiple_of', z.number().multipleOf(2), 3, 'Expected a multiple of 2, but got 3'],
  ['unrecognized_keys', z.strictObject({}), { a: 1 }, 'Unknown field "a"'],
  ['invalid_union', z.union([z.string(), z.boolean()]), 1, 'Expected a value of another kind than 1'],
  [
    'invalid_key',
    z.record(z.string().min(2), z.number()),
    { a: 1 },
    'Expected a text of at least 2 characters, but got 1',
  ],
  ['invalid_element', z.map(z.boolean(), z.string()), new Map([[true, 1]]), 'Expected a text, but got 1'],
  ['invalid_value', z.literal(1), 2, 'Expected 1, but got 2'],
  ['custom', z.custom(() => false), 1, 'Expected another value than 1'],
])('says what is wrong with the code %s', (code, schema, value, message) => {
  const issues = issuesOf(schema, value);
  expect(issues).toMatchObject([{ code, message }]);
});

it.each([
  ['max_token', 'max_tokens'],
  ['maxTokens', 'max_tokens'],
  ['promt', 'prompt'],
  ['Prompt', 'prompt'],
  ['tempreature', 'temperature'],
  ['messages', undefined],
  ['x'.repeat(100), undefined],
  ['', undefined],
])('nearest to %s is %s', (name, expected) => {
  expect(nearest(name, ['prompt', 'max_tokens', 'temperature', 'n'])).toBe(expected);
});
