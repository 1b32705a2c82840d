import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { changeProbability, ExpectedChanges } from '../../src/studies/critical-tokens.js';

/** n over k. */
function over(n: number, k: number): number {
  return k < 0 || k > n ? 0 : k === 0 ? 1 : (over(n - 1, k - 1) * n) / k;
}

describe('equation 2', () => {
  it('is 1 − C(L − 1 − c, n) / C(L − 1, n)', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 30 }), fc.nat(30), fc.nat(6), (others, some, critical) => {
        const changed = Math.min(others, some);
        fc.pre(critical <= others);
        const expected = 1 - over(others - critical, changed) / over(others, changed);
        expect(changeProbability(others, changed, critical)).toBeCloseTo(expected, 9);
      }),
    );
  });
});

describe('expected changes', () => {
  it('find the number of critical tokens that explains a share', () => {
    const expected = new ExpectedChanges();
    expected.add(100, 511, 51);
    for (const critical of [0, 1, 4, 9]) expect(expected.nearest(expected.of(critical) + 0.01)).toBe(critical);
    expect(expected.nearest(1)).toBe(32);
  });
});
