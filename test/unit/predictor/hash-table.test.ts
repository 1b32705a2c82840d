import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  createHashTable,
  createUnknownTable,
  NO_EXPERT,
  openHashTable,
  TABLE_EXACT,
  TABLE_PREDICTED,
  TABLE_UNKNOWN,
} from '../../../src/predictor/hash-table.js';

describe('hash table', () => {
  it('lies in memory as docs/hash-table.md says', () => {
    const table = createHashTable({ batchId: 7, layers: 1, tokens: 3, k: 1, kind: TABLE_PREDICTED });
    table.experts.set([5, 256, NO_EXPERT]);
    table.alpha.set([0.5, 1, 0]);
    const words = [1, 7, 1, 3, 1, 1, 0].flatMap((word) => [word, 0, 0, 0]);
    const experts = [5, 0, 0, 1, 255, 255];
    const alpha = [0, 0, 0, 63, 0, 0, 128, 63, 0, 0, 0, 0];
    expect([...new Uint8Array(table.buffer)]).toEqual([
      ...Buffer.from('SIDH'),
      ...words,
      ...experts,
      0,
      0,
      ...alpha,
    ]);
  });

  it('is a header alone when unknown', () => {
    const table = createUnknownTable(9, 2, 40);
    expect(table.buffer.byteLength).toBe(32);
    expect(openHashTable(table.buffer)).toMatchObject({
      batchId: 9,
      layers: 2,
      tokens: 40,
      k: 0,
      kind: TABLE_UNKNOWN,
    });
  });

  it('opens as it was written, on the same memory', () => {
    const small = fc.integer({ min: 1, max: 9 });
    fc.assert(
      fc.property(small, small, small, fc.nat(0xffffffff), (layers, tokens, k, batchId) => {
        const written = createHashTable({ batchId, layers, tokens, k, kind: TABLE_EXACT });
        const read = openHashTable(written.buffer);
        expect(read).toMatchObject({ batchId, layers, tokens, k, kind: TABLE_EXACT });
        expect(read.experts.every((index) => index === NO_EXPERT)).toBe(true);
        written.experts[written.experts.length - 1] = 3;
        written.alpha[0] = 0.25;
        expect(read.experts.at(-1)).toBe(3);
        expect(read.alpha[0]).toBe(0.25);
      }),
    );
  });

  it.each([
    ['a short buffer', (): SharedArrayBuffer => new SharedArrayBuffer(31), '31 bytes, a header has 32'],
    ['zeros', () => new SharedArrayBuffer(32), 'magic 0x0'],
    ['another version', () => edited(1, 2), 'version 2, expected 1'],
    ['more tokens than bytes', () => edited(4, 1000), '(2, 1000, 1) takes'],
    ['an unknown kind', () => edited(6, 3), 'kind 3'],
    ['entries in an unknown table', () => edited(6, TABLE_UNKNOWN), 'kind 0 with k 1'],
  ])('refuses %s', (_, buffer, message) => {
    expect(() => openHashTable(buffer())).toThrow(message);
  });
});

function edited(word: number, value: number): SharedArrayBuffer {
  const { buffer } = createHashTable({ batchId: 1, layers: 2, tokens: 4, k: 1, kind: TABLE_PREDICTED });
  new Uint32Array(buffer)[word] = value;
  return buffer;
}
