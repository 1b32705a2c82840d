import { describe, expect, it } from 'vitest';
import { LabelCounts, PerplexityCounts } from '../../../src/evaluation/fidelity.js';

const NO = [0, -1];
const YES = [-1, 0];
/** What an input got: in exact mode, with experts of zeros, and from tables and random tables for each k. */
const got = <T>(exact: T, zeros: T, ...predicted: [own: T | null, random: T | null][]) => {
  return { exact, zeros, predicted: predicted.map(([own, random]) => ({ own, random })) };
};

describe('fidelity on labels', () => {
  it('is the accuracy of predicted mode divided by the exact one', () => {
    const counts = new LabelCounts(['no', 'yes'], [1, 3]);
    counts.add(1, got(YES, NO, [NO, NO], [YES, NO]));
    counts.add(0, got(NO, NO, [NO, YES], [NO, NO]));
    counts.add(1, got(YES, NO, [YES, NO], [YES, YES]));
    counts.add(0, got(YES, NO, [NO, NO], [null, null]));
    const { inputs, exact, zeros, predicted } = counts.result();
    expect([inputs, exact, zeros]).toEqual([4, { accuracy: 0.75, f1: 0.8 }, { accuracy: 0.5, f1: 0 }]);
    const [one, three] = predicted;
    expect(one).toMatchObject({ k: 1, accuracy: 0.75, f1: 2 / 3, fidelity: 1, agreement: 0.5, unrouted: 0 });
    expect(one!.random).toEqual({ accuracy: 0.25, f1: 0 });
    expect(three).toMatchObject({ k: 3, accuracy: 0.75, f1: 1, fidelity: 1, agreement: 0.75, unrouted: 1 });
    expect(three!.random).toEqual({ accuracy: 0.5, f1: 2 / 3 });
  });

  it('has no F1 for three labels, and no ratio to an accuracy of 0', () => {
    const counts = new LabelCounts(['a', 'b', 'c'], [1]);
    counts.add(2, got([0, -1, -1], [0, -1, -1], [[-1, 0, -1], null]));
    const { exact, predicted } = counts.result();
    expect([exact.f1, predicted[0]!.fidelity]).toEqual([null, null]);
  });

  it('tells how far predictions come from experts of zeros to exact, where these differ by more than chance', () => {
    const counts = new LabelCounts(['no', 'yes'], [1]);
    // Exact answers are right. Zeros say no, predictions err in one of ten.
    for (let i = 0; i < 20; i++) {
      counts.add(1, got(YES, NO, [i % 10 === 0 ? NO : YES, NO]));
      counts.add(0, got(NO, NO, [NO, YES]));
    }
    const { gain, told, predicted } = counts.result();
    expect(told).toBe(true);
    expect(gain!.mean).toBe(0.5);
    // Standard errors of 20 ones and 20 zeros, times Student's t for 39 degrees of freedom.
    expect(gain!.low).toBeCloseTo(0.5 - 2.0227 * Math.sqrt(0.25 / 39), 4);
    expect(predicted[0]!.way).toBeCloseTo(0.9);
  });

  it('cannot tell where experts of zeros do as well, nor from one input', () => {
    const counts = new LabelCounts(['no', 'yes'], [1]);
    counts.add(1, got(YES, NO, [YES, YES]));
    expect(counts.result()).toMatchObject({ gain: null, told: false, predicted: [{ way: null }] });
    for (let i = 0; i < 30; i++) counts.add(1, got(YES, i % 15 === 0 ? NO : YES, [YES, YES]));
    const near = counts.result();
    expect(near.exact.accuracy).toBeGreaterThan(near.zeros.accuracy);
    expect(near).toMatchObject({ told: false, predicted: [{ accuracy: 1, way: null }] });
  });
});

describe('perplexity', () => {
  it('is that of a uniform guess when every token has the same probability', () => {
    const counts = new PerplexityCounts([1]);
    const of = (tokens: number) => {
      const [exact, own, random, zeros] = [8, 10, 16, 28].map((size) => tokens * Math.log(1 / size));
      counts.add(tokens, got(exact!, zeros!, [own!, random!]));
    };
    for (const tokens of [3, 2, 3, 2]) of(tokens);
    const { inputs, tokens, exact, zeros, told, predicted } = counts.result();
    expect([inputs, tokens, told]).toEqual([4, 10, true]);
    expect([exact, zeros, predicted[0]!.random].map((value) => Math.round(value! * 1e9) / 1e9)).toEqual([
      8, 28, 16,
    ]);
    expect(predicted[0]!.perplexity).toBeCloseTo(10);
    expect(predicted[0]!.ratio).toBeCloseTo(1.25);
    expect(predicted[0]!.way).toBeCloseTo(0.9);
  });

  it('is null when some inputs were not routed', () => {
    const counts = new PerplexityCounts([2]);
    counts.add(1, got(-1, -2, [null, null]));
    counts.add(1, got(-1, -2, [-1, -2]));
    expect(counts.result().predicted).toEqual([
      { k: 2, perplexity: null, ratio: null, unrouted: 1, random: null, way: null },
    ]);
  });
});
