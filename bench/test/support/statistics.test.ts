import { describe, expect, it } from 'vitest';
import { median, medians, quantile } from '../../src/support/statistics.js';

describe('quantile', () => {
  it('is the nearest rank', () => {
    expect([0, 0.25, 0.5, 0.95, 1].map((q) => quantile([4, 1, 3, 2], q))).toEqual([1, 1, 2, 4, 4]);
    expect(quantile([7], 0.99)).toBe(7);
  });
});

describe('median', () => {
  it('is the middle, or between the two middles, and changes nothing', () => {
    const values = [3, 1, 2];
    expect(median(values)).toBe(2);
    expect(median([4, 1, 3, 2])).toBe(2.5);
    expect(values).toEqual([3, 1, 2]);
  });

  it('is taken key by key, and text from the first', () => {
    const samples = [
      { ms: 3, bytes: 10, name: 'a' },
      { ms: 1, bytes: 30, name: 'b' },
      { ms: 2, bytes: 20, name: 'c' },
    ];
    expect(medians(samples)).toEqual({ ms: 2, bytes: 20, name: 'a' });
  });
});
