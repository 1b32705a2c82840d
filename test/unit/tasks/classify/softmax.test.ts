import { expect, it } from 'vitest';
import { softmax } from '../../../../src/tasks/classify/index.js';

it('sums to 1 and does not overflow', () => {
  const [a, b, c] = softmax([1000, 1000, 999]);
  expect(a).toBe(b);
  expect(a! / c!).toBeCloseTo(Math.E, 10);
  expect(a! + b! + c!).toBeCloseTo(1, 12);
});
