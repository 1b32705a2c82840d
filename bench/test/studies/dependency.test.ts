import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { randomOf } from '../../../dist/predictor/random.js';
import { corrupt } from '../../src/studies/dependency.js';

const END = 1;
const inputs = fc.uniqueArray(fc.integer({ min: 10, max: 500 }), { minLength: 2, maxLength: 40 });

describe('corrupt', () => {
  it('replaces its share of the tokens, never the end token, and leaves one to look at', () => {
    fc.assert(
      fc.property(inputs, fc.double({ min: 0.01, max: 1, noNaN: true }), fc.nat(), (words, share, seed) => {
        const tokens = Int32Array.from([...words, END]);
        const { corrupted, kept } = corrupt(tokens, share, randomOf(seed), (than) => than + 1000);
        const changed = words.filter((word, t) => corrupted[t] !== word).length;
        expect(changed).toBe(words.length - kept.length);
        expect(changed).toBe(Math.min(words.length - 1, Math.max(1, Math.round(share * (words.length - 1)))));
        expect(kept.every((t) => corrupted[t] === tokens[t])).toBe(true);
        expect(corrupted.at(-1)).toBe(END);
        expect(kept.length).toBeGreaterThanOrEqual(1);
      }),
    );
  });

  it('is the same for the same seed and does not touch its input', () => {
    const tokens = Int32Array.of(5, 6, 7, 8, END);
    const once = corrupt(tokens, 0.5, randomOf(3), () => 99);
    expect(corrupt(tokens, 0.5, randomOf(3), () => 99)).toEqual(once);
    expect([...tokens]).toEqual([5, 6, 7, 8, END]);
  });
});
