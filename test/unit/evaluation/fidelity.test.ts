import { describe, expect, it } from 'vitest';
import { LabelCounts, PerplexityCounts } from '../../../src/evaluation/fidelity.js';

const NO = [0, -1];
const YES = [-1, 0];

describe('fidelity on labels', () => {
  it('is the accuracy of predicted mode divided by the exact one', () => {
    const counts = new LabelCounts(['no', 'yes'], [1, 3]);
    counts.add(1, YES, [NO, YES]);
    counts.add(0, NO, [NO, NO]);
    counts.add(1, YES, [YES, YES]);
    counts.add(0, YES, [NO, null]);
    const { exact, predicted } = counts.result();
    expect(exact).toEqual({ accuracy: 0.75, f1: 0.8 });
    expect(predicted).toEqual([
      { k: 1, accuracy: 0.75, f1: 2 / 3, fidelity: 1, agreement: 0.5, unrouted: 0 },
      { k: 3, accuracy: 0.75, f1: 1, fidelity: 1, agreement: 0.75, unrouted: 1 },
    ]);
  });

  it('has no F1 for three labels, and no ratio to an accuracy of 0', () => {
    const counts = new LabelCounts(['a', 'b', 'c'], [1]);
    counts.add(2, [0, -1, -1], [[-1, 0, -1]]);
    const { exact, predicted } = counts.result();
    expect([exact.f1, predicted[0]!.fidelity]).toEqual([null, null]);
  });
});

describe('perplexity', () => {
  it('is that of a uniform guess when every token has the same probability', () => {
    const counts = new PerplexityCounts([1]);
    counts.add(3, 3 * Math.log(1 / 8), [3 * Math.log(1 / 10)]);
    counts.add(1, Math.log(1 / 8), [Math.log(1 / 10)]);
    const { tokens, exact, predicted } = counts.result();
    expect(tokens).toBe(4);
    expect(exact).toBeCloseTo(8);
    expect(predicted[0]!.perplexity).toBeCloseTo(10);
    expect(predicted[0]!.ratio).toBeCloseTo(1.25);
  });

  it('is null when some inputs were not routed', () => {
    const counts = new PerplexityCounts([2]);
    counts.add(1, -1, [null]);
    counts.add(1, -1, [-1]);
    expect(counts.result().predicted).toEqual([{ k: 2, perplexity: null, ratio: null, unrouted: 1 }]);
  });
});
