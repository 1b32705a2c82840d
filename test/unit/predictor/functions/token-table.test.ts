import { readFileSync, writeFileSync } from 'node:fs';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { NO_EXPERT } from '../../../../src/native/addon-types.js';
import { TokenTable } from '../../../../src/predictor/functions/token-table.js';
import { namedExperts } from '../../../../src/predictor/hash-function.js';
import { TokenTableLearner } from '../../../../src/predictor/training/token-table-learning.js';
import {
  DECODER,
  ENCODER,
  filled as fillOf,
  freshPath,
  recordOf,
  recordsOf,
  removeFiles,
  SHAPE,
} from '../routing-fixture.js';

afterAll(removeFiles);

function learned(records = recordsOf(60), width?: number): TokenTable {
  const learner = new TokenTableLearner(SHAPE);
  for (const record of records) learner.add(record);
  return learner.finish(width);
}

function filled(table: TokenTable, tokens: number[], k: number, stack = ENCODER) {
  const input = { tokens: Int32Array.from(tokens), offsets: Int32Array.of(0, tokens.length) };
  const { known, ...named } = fillOf(table, stack, input, k);
  expect(known).toBe(true);
  return named;
}

describe('token table', () => {
  it('lists the expert a token went to most often first, with its mean probability', () => {
    const records = [recordOf(0, [3, 3, 3, 3], [0]), recordOf(1, [3], [0])];
    const { experts, alpha, chance } = filled(learned(records), [3], 2);
    // The token at position 3 of line 0 is routed by its position, also 3. Expert 3 is thus chosen 5 of 5 times.
    expect(experts[0]).toBe(3);
    const sure = 1 / Array.from({ length: 8 }, (_, i) => Math.exp(-i)).reduce((a, b) => a + b);
    const backedOff = (5 * sure + 0.5 * ((5 * sure + 1 / 8) / 6)) / 5.5;
    expect(alpha[0]).toBeCloseTo(backedOff, 6);
    expect(chance[0]).toBeCloseTo((5 + 0.5 * ((5 + 1 / 8) / 6)) / 5.5, 6);
  });

  it('steps sequences by their last tokens alone', () => {
    const table = learned();
    const stepper = table.stepper()!;
    const tokens = Int32Array.of(5, 9);
    const expected = filled(table, [...tokens], 3, DECODER);
    const named = namedExperts(SHAPE.stacks[DECODER]!.layers * 2, 3);
    stepper.begin(1, tokens, tokens);
    expect(stepper.step(Int32Array.of(1, 2), tokens, named)).toBe(true);
    expect(named).toEqual(expected);
  });

  it('falls back to the frequencies of the layer for an id it has not seen', () => {
    const records = Array.from({ length: 9 }, (_, i) => recordOf(i * 4, [i < 6 ? 5 : 2], [0]));
    const table = learned(records);
    for (const unseen of [9, SHAPE.vocab, -1, 2 ** 31 - 1]) {
      const { experts } = filled(table, [unseen], 3);
      expect([...experts.subarray(0, 2)]).toEqual([5, 2]);
    }
  });

  it('fills rows with other experts up to its width, and with none from there to k', () => {
    const { experts, alpha, chance } = filled(learned(recordsOf(5), 4), [3, 23], 6);
    for (let row = 0; row < experts.length / 6; row++) {
      const names = [...experts.subarray(row * 6, row * 6 + 6)];
      expect(new Set(names.slice(0, 4)).size).toBe(4);
      expect(names.slice(4)).toEqual([NO_EXPERT, NO_EXPERT]);
      expect(alpha[row * 6 + 5]).toBe(0);
      expect(chance[row * 6 + 5]).toBe(0);
    }
  });

  it('learns the same from the same records, and a flat table from no records', () => {
    expect(learned().stacks).toEqual(learned().stacks);
    const { experts, alpha } = filled(learned([]), [4], 8, DECODER);
    expect([...experts.subarray(0, 8)]).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    expect(alpha[0]).toBeCloseTo(1 / 8);
  });

  it('reads the table that it saved', () => {
    const path = freshPath();
    learned().save(path);
    const read = TokenTable.read(path, SHAPE);
    expect(read.stacks).toEqual(learned().stacks);
    const tokens = [0, 5, 9, 23];
    expect(filled(read, tokens, 8)).toEqual(filled(learned(), tokens, 8));
  });

  it.each([
    [
      'fewer layers',
      { ...SHAPE, stacks: [{ ...SHAPE.stacks[ENCODER]!, layers: 2 }] },
      'expected U16 [2, 25, 8], found U16 [3, 25, 8]',
    ],
    ['fewer experts', { ...SHAPE, experts: 7 }, '8 experts a token, expected 1 to 7'],
    ['a smaller vocabulary', { ...SHAPE, vocab: 20 }, '24 tokens, expected at most 20'],
  ])('refuses a model of %s', (_, shape, message) => {
    const path = freshPath();
    learned().save(path);
    expect(() => TokenTable.read(path, shape)).toThrow(
      expect.objectContaining({ code: 'checkpoint_invalid', message: expect.stringContaining(message) }),
    );
  });

  it('refuses a damaged file or reads one whose entries are all valid', () => {
    const path = freshPath();
    learned(recordsOf(3)).save(path);
    const whole = readFileSync(path);
    fc.assert(
      fc.property(fc.nat(whole.length - 1), fc.nat(255), (at, byte) => {
        const damaged = Buffer.from(whole);
        damaged[at] = byte;
        writeFileSync(path, damaged);
        let table: TokenTable;
        try {
          table = TokenTable.read(path, SHAPE);
        } catch (error) {
          expect(error).toMatchObject({ code: 'checkpoint_invalid' });
          return;
        }
        const { experts, alpha, chance } = filled(table, [...Array(SHAPE.vocab).keys()], 8);
        expect(experts.every((expert) => expert < 8 || expert === NO_EXPERT)).toBe(true);
        expect(alpha.every((value) => value >= 0 && value <= 1)).toBe(true);
        for (let row = 0; row < chance.length; row += 8) {
          const sum = chance.subarray(row, row + 8).reduce((total, value) => total + value, 0);
          expect(sum <= 1 + 1e-4 && chance[row]! >= 0).toBe(true);
        }
      }),
      { numRuns: 500 },
    );
  });
});
