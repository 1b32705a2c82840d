import { expect, it } from 'vitest';
import { intervalOf } from '../../../src/evaluation/paired-difference.js';

/** Half of the interval of `count` values whose mean has a standard error of 1. */
function halfOf(count: number): number {
  const ends = count % 2 === 0 ? [] : [0];
  const values = [...ends, ...Array.from({ length: count - ends.length }, (_, i) => (i % 2 === 0 ? 1 : -1))];
  const deviation = Math.sqrt(values.reduce((sum, value) => sum + value ** 2, 0) / (count - 1) / count);
  const { low, high } = intervalOf(values)!;
  return (high - low) / 2 / deviation;
}

it.each([
  [2, 12.706],
  [3, 4.303],
  [5, 2.776],
  [9, 2.306],
  [10, 2.262],
  [31, 2.042],
  [100_000, 1.96],
])('of %d values, an interval has as many standard errors as the table of Student says', (count, t) => {
  expect(Math.abs(halfOf(count) - t)).toBeLessThan(0.005);
});

it('needs two values', () => {
  expect(intervalOf([1])).toBeNull();
});
