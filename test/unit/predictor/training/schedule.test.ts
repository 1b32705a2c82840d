import { expect, it } from 'vitest';
import { learningRateAt } from '../../../../src/predictor/training/schedule.js';

it('rises over the warm-up, then stays constant', () => {
  const options = { lr: 8, schedule: 'constant', warmup: 4 } as const;
  const rate = (step: number) => learningRateAt(options, { step, progress: 0.9, falls: 1 });
  expect([0, 1, 2, 3, 4, 1000].map(rate)).toEqual([2, 4, 6, 8, 8, 8]);
});

it('falls to 0 along half a cosine', () => {
  const options = { lr: 8, schedule: 'cosine', warmup: 0 } as const;
  const rate = (progress: number) => learningRateAt(options, { step: 0, progress, falls: 0 });
  expect(rate(0)).toBe(8);
  expect(rate(0.5)).toBeCloseTo(4);
  expect(rate(1)).toBeCloseTo(0);
  expect(rate(1.5)).toBeCloseTo(0);
});

it('falls to a tenth at each plateau', () => {
  const options = { lr: 8, schedule: 'plateau', warmup: 4 } as const;
  const rate = (falls: number) => learningRateAt(options, { step: 100, progress: 0.5, falls });
  expect(rate(0)).toBe(8);
  expect(rate(1)).toBeCloseTo(0.8);
  expect(rate(2)).toBeCloseTo(0.08);
});
