import { describe, expect, it } from 'vitest';
import { gainOf } from '../../../src/inference/paired-gain.js';
import { randomFrom } from './simulated-load.js';

describe('the gain of pairs', () => {
  it('is a share of the time without tables', () => {
    // 10 ms without tables, 8 with them.
    const gain = gainOf(Array(4).fill(Math.log(10 / 8)))!;
    expect(gain.pairs).toBe(4);
    for (const value of [gain.mean, gain.low, gain.high]) expect(value).toBeCloseTo(0.2, 10);
  });

  it('needs two pairs', () => {
    expect([gainOf([]), gainOf([0.1])]).toEqual([null, null]);
    expect(gainOf([0.1, 0.2])).not.toBeNull();
  });

  it('is hardly changed by one pair with a stall', () => {
    const steady = [0.19, 0.21, 0.2, 0.18, 0.22, 0.2, 0.19, 0.21];
    const gain = gainOf([...steady.slice(1), -3])!;
    expect(gain.low).toBeGreaterThan(0.1);
    expect(gain.mean).toBeCloseTo(gainOf(steady)!.mean, 1);
  });

  it.each([4, 8, 16])(
    'has an interval that holds the truth in about 95 %% of cases, with %i pairs',
    (pairs) => {
      const random = randomFrom(pairs);
      let held = 0;
      for (let i = 0; i < 2000; i++) {
        const differences = Array.from(
          { length: pairs },
          () => random() + random() + random() + random() - 2,
        );
        const { low, high } = gainOf(differences)!;
        if (low <= 0 && high >= 0) held += 1;
      }
      expect(held / 2000).toBeGreaterThan(0.92);
      expect(held / 2000).toBeLessThan(0.98);
    },
  );
});
