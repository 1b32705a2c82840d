import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { NO_EXPERT } from '../../../src/native/addon-types.js';
import {
  createHashTable,
  openHashTable,
  TABLE_ABANDONED,
  TABLE_PENDING,
  TABLE_READY,
} from '../../../src/protocol/hash-table.js';

describe('hash table', () => {
  it('has the memory layout of docs/hash-table.md', () => {
    const table = createHashTable({
      batchId: 7,
      layers: 1,
      tokens: 3,
      k: 1,
      expertsPerLayer: 2,
    });
    table.experts.set([5, 256, NO_EXPERT]);
    table.alpha.set([0.5, 1, 0]);
    table.chance.set([0, 0.5, 1]);
    table.need.set([0, 1]);
    table.settle(TABLE_READY);
    const words = [3, 7, 1, 3, 1, 2, 1].flatMap((word) => [word, 0, 0, 0]);
    const experts = [5, 0, 0, 1, 255, 255];
    const alpha = [0, 0, 0, 63, 0, 0, 128, 63, 0, 0, 0, 0];
    const chance = [0, 0, 0, 0, 0, 0, 0, 63, 0, 0, 128, 63];
    const need = [0, 0, 0, 0, 0, 0, 128, 63];
    expect([...new Uint8Array(table.buffer)]).toEqual([
      ...Buffer.from('SIDH'),
      ...words,
      ...experts,
      0,
      0,
      ...alpha,
      ...chance,
      ...need,
    ]);
  });

  it('is settled only once, by the first call', () => {
    const shape = {
      batchId: 1,
      layers: 1,
      tokens: 1,
      k: 1,
      expertsPerLayer: 1,
    } as const;
    const written = createHashTable(shape);
    const read = openHashTable(written.buffer);
    expect(read.state).toBe(TABLE_PENDING);
    expect(read.settle(TABLE_ABANDONED)).toBe(true);
    expect(written.settle(TABLE_READY)).toBe(false);
    expect([written.state, read.state]).toEqual([TABLE_ABANDONED, TABLE_ABANDONED]);
  });

  it('opens with the written values, on the same memory', () => {
    const small = fc.integer({ min: 1, max: 9 });
    fc.assert(
      fc.property(small, small, small, fc.nat(0xffffffff), (layers, tokens, k, batchId) => {
        const written = createHashTable({
          batchId,
          layers,
          tokens,
          k,
          expertsPerLayer: 5,
        });
        const read = openHashTable(written.buffer);
        expect(read).toMatchObject({ batchId, layers, tokens, k });
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
    ['another version', () => edited(1, 2), 'version 2, expected 3'],
    ['more tokens than bytes', () => edited(4, 1000), '(2, 1000, 1) with 3 experts takes'],
    ['an unknown state', () => edited(7, 4), 'state 4'],
    ['more experts than bytes', () => edited(6, 100), 'with 100 experts takes'],
  ])('refuses %s', (_, buffer, message) => {
    expect(() => openHashTable(buffer())).toThrow(message);
  });
});

function edited(word: number, value: number): SharedArrayBuffer {
  const { buffer } = createHashTable({
    batchId: 1,
    layers: 2,
    tokens: 4,
    k: 1,
    expertsPerLayer: 3,
  });
  new Uint32Array(buffer)[word] = value;
  return buffer;
}
