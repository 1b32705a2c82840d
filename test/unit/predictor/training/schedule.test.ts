import { expect, it } from 'vitest';
import { learningRateAt } from '../../../../src/predictor/training/schedule.js';

it('rises over the warm-up, then stays constant', () => {
  const rate = (step: number) => learningRateAt({ lr: 8, schedule: 'constant', warmup: 4 }, step, 0.9);
  expect([0, 1, 2, 3, 4, 1000].map(rate)).toEqual([2, 4, 6, 8, 8, 8]);
});

it('falls to 0 along half a cosine', () => {
  const rate = (progress: number) => learningRateAt({ lr: 8, schedule: 'cosine', warmup: 0 }, 0, progress);
  expect(rate(0)).toBe(8);
  expect(rate(0.5)).toBeCloseTo(4);
  expect(rate(1)).toBeCloseTo(0);
  expect(rate(1.5)).toBeCloseTo(0);
});
