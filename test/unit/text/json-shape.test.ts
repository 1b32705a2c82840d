import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { shapeFault } from '../../../src/text/json-shape.js';
import { TIMED } from '../../support/timed.js';

const BOUNDS = { depth: 32, fields: 4096 };
const faultOf = (text: string) => shapeFault(Buffer.from(text), BOUNDS);

describe('a key that stands twice', () => {
  it.each<[text: string, path: (string | number)[]]>([
    ['{"a":1,"a":1}', ['a']],
    ['{"a":1,"b":{"a":1},"a":2}', ['a']],
    ['{"a":1,"\\u0061":2}', ['a']],
    ['{"\\/":1,"/":2}', ['/']],
    ['{"":1 , "" :2}', ['']],
    ['{"é":1,"\\u00E9":2}', ['é']],
    ['{"\\ud83d\\ude00":1,"😀":2}', ['😀']],
    ['{"a\\"b":1,"a\\u0022b":2}', ['a"b']],
    ['{"x":[0,[],{"k":[{}],"y":{"z":1,"z":2}}]}', ['x', 2, 'y', 'z']],
    ['[{"a":1},{"b":"x,y:{","b":0}]', [1, 'b']],
    ['{"__proto__":1,"__proto__":2}', ['__proto__']],
  ])('%s', (text, path) => expect(faultOf(text)).toEqual({ kind: 'duplicate', path }));
});

it('finds a key behind strings of any length', () => {
  const part = fc.constantFrom(
    'x',
    'ш',
    '\\"',
    '\\\\',
    '\\u0022',
    ',',
    ':',
    '{',
    ' '.repeat(63),
    'y'.repeat(200),
  );
  const text = fc.array(part, { maxLength: 12 }).map((parts) => parts.join(''));
  fc.assert(
    fc.property(text, text, (first, second) => {
      expect(faultOf(`{"k":"${first}","l":["${second}"],"k":0}`)).toEqual({ kind: 'duplicate', path: ['k'] });
      expect(faultOf(`{"k":"${first}","l":["${second}"],"m":"${first}"}`)).toBeUndefined();
      const open = Buffer.from(`{"k":"${first}`);
      expect(shapeFault(open, BOUNDS)).toBeUndefined();
    }),
  );
});

it('takes time in proportion to a string with many escapes', () => {
  const json = Buffer.from(`{"k":"${`${'x'.repeat(70)}\\\\`.repeat(14_000)}","k":0}`);
  expect(shapeFault(json, BOUNDS)).toEqual({ kind: 'duplicate', path: ['k'] });
});

it.each([
  '{"a":{"a":{"a":[]}}}',
  '[{"a":1},{"a":1}]',
  '{"a":"a","b":"a"}',
  '{"a":1,"A":2,"á":3,"a\\u0301":4}',
  '"a"',
])('%s has no key twice', (text) => expect(faultOf(text)).toBeUndefined());

it('finds nothing in what JSON.stringify writes', () => {
  fc.assert(fc.property(fc.json(), (text) => faultOf(text) === undefined));
});

it('finds a key that was put in again, however it is spelled', () => {
  const escaped = (key: string) =>
    `"${[...Array(key.length).keys()].map((at) => `\\u${key.charCodeAt(at).toString(16).padStart(4, '0')}`).join('')}"`;
  const keys = fc.uniqueArray(fc.string({ unit: 'grapheme' }), { minLength: 1, maxLength: 20 });
  fc.assert(
    fc.property(keys, fc.nat(), (names, pick) => {
      const again = names[pick % names.length]!;
      const members = names.map((name) => `${JSON.stringify(name)}:{"inner":[1,2]}`);
      const text = `{"outer":[0,{${[...members, `${escaped(again)}:0`].join()}}]}`;
      expect(faultOf(text)).toEqual({ kind: 'duplicate', path: ['outer', 1, again] });
    }),
  );
});

it('survives text that is no JSON', () => {
  fc.assert(fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => void shapeFault(bytes, BOUNDS)));
  for (const text of [']}]}', '{:1,:1}', '{"a', '{"a\\', '"\\u00":1', ',,,', '{"\\x":1,"\\x":2}'])
    faultOf(text);
});

it('bounds depth and fields', () => {
  expect(faultOf('['.repeat(33))).toEqual({ kind: 'depth' });
  expect(faultOf('['.repeat(32))).toBeUndefined();
  expect(faultOf(`{${Array.from({ length: 4097 }, (_, i) => `"k${i}":0`).join()}}`)).toEqual({
    kind: 'fields',
  });
});

it('takes time in proportion to the text', TIMED, () => {
  const time = (keys: number) => {
    const text = Buffer.from(`{${Array.from({ length: keys }, (_, i) => `"\\u006b${i}":0`).join()}}`);
    const times = Array.from({ length: 5 }, () => {
      const start = performance.now();
      shapeFault(text, { depth: 32, fields: Number.POSITIVE_INFINITY });
      return performance.now() - start;
    });
    return Math.min(...times);
  };
  time(20_000);
  expect(time(80_000) / time(20_000)).toBeLessThan(16);
});
