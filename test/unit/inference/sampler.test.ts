import { describe, expect, it } from 'vitest';
import { assertFinite, greedy, logSumExp, mostLikely, softmax } from '../../../src/inference/sampler.js';

const row = (...values: number[]) => Float32Array.from(values);

describe('sampler', () => {
  it('takes the largest logit, the lowest id on ties', () => {
    expect(greedy(row(1, 3, 3, 2))).toBe(1);
    expect(greedy(row(-5))).toBe(0);
  });

  it('takes log-probabilities that sum to one, without overflow', () => {
    const logits = row(1000, 1001, 999);
    const logSum = logSumExp(logits);
    expect([...logits].reduce((sum, logit) => sum + Math.exp(logit - logSum), 0)).toBeCloseTo(1, 12);
  });

  it('names the most likely tokens, most likely first, ties by id', () => {
    const logits = row(2, 5, 2, 9, 5);
    const ids = (count: number) => mostLikely(logits, count, logSumExp(logits)).map(({ id }) => id);
    expect(ids(3)).toEqual([3, 1, 4]);
    expect(ids(0)).toEqual([]);
    expect(ids(9)).toEqual([3, 1, 4, 0, 2]);
    expect(mostLikely(logits, 1, logSumExp(logits))[0]!.logprob).toBeCloseTo(
      Math.log(softmax([...logits])[3]!),
      12,
    );
  });

  it.each([Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY])('refuses %d', (value) => {
    expect(() => assertFinite(row(1, value))).toThrowError(
      expect.objectContaining({ code: 'nonfinite_output' }),
    );
    assertFinite(row(1, 2));
  });
});
