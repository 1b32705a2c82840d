import fc from 'fast-check';
import { expect, it } from 'vitest';
import { parseExactly } from '../../../src/text/exact-json.js';
import { jsonBytes, jsonPieces } from '../../../src/text/json-pieces.js';

const join = (value: unknown) => [...jsonPieces(value)].join('');

it('give the text of JSON.stringify', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 4 }), (value) => {
      expect(join(value)).toBe(JSON.stringify(value));
      const large = { pad: 'x'.repeat(70_000), value, many: Array(3_000).fill(value), gap: undefined };
      expect(join(large)).toBe(JSON.stringify(large));
      expect(join([large, value, 'y'.repeat(70_000)])).toBe(
        JSON.stringify([large, value, 'y'.repeat(70_000)]),
      );
    }),
    { numRuns: 50 },
  );
});

it('have the digits of what was read', () => {
  const json = '{"id":12345678901234567890,"x":1.0}';
  const given = parseExactly(json);
  expect(join({ a: [{ given }], b: 1 })).toBe(`{"a":[{"given":${json}}],"b":1}`);
  const pad = 'x'.repeat(70_000);
  expect(join({ pad, a: [given, { pad, given }] })).toBe(
    `{"pad":"${pad}","a":[${json},{"pad":"${pad}","given":${json}}]}`,
  );
  const large = `{"pad":"${pad}","id":12345678901234567890}`;
  expect(join({ large: parseExactly(large) })).toBe(`{"large":${large}}`);
});

it('keep surrogate pairs together', () => {
  const text = `a${'😀'.repeat(100_000)}\ud800`;
  expect(join({ text })).toBe(JSON.stringify({ text }));
});

it('are small, however large the value', () => {
  const data = Array.from({ length: 2_048 }, (_, index) => ({
    index,
    embedding: Array.from({ length: 128 }, (_, i) => Math.sin(index * i)),
  }));
  const values = [{ data }, { numbers: Array(500_000).fill(1 / 3) }, ['x'.repeat(3 << 20)], { '': { data } }];
  for (const value of values) {
    const pieces = [...jsonPieces(value)];
    expect(pieces.length).toBeGreaterThan(10);
    expect(Math.max(...pieces.map(({ length }) => length))).toBeLessThan(256 * 1024);
  }
});

it('are one where the value is small', () => {
  expect([...jsonPieces({ a: [1, 2], b: {}, c: [], d: '' })]).toHaveLength(1);
});

it('are counted, exactly where they are few', () => {
  const small = { a: ['é', 1.5], b: null };
  expect(jsonBytes(small)).toBe(Buffer.byteLength(JSON.stringify(small)));
  for (const large of [{ numbers: Array(100_000).fill(1 / 3) }, ['x'.repeat(1 << 20)]]) {
    expect(jsonBytes(large) / JSON.stringify(large).length).toBeCloseTo(1, 0);
  }
});
