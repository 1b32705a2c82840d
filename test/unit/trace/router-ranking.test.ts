import { describe, expect, it } from 'vitest';
import { NO_EXPERT, type RunResult } from '../../../src/native/addon-types.js';
import { RouterRanking } from '../../../src/trace/router-ranking.js';

/** A pass of one layer over tokens whose logits and chosen experts these are. */
const pass = (logits: number[][], chosen: number[][]) =>
  ({
    layers: Int32Array.of(0),
    routerLogits: Float32Array.from(logits.flat()),
    dispatch: Uint16Array.from(chosen.flat()),
  }) as RunResult;

const softmax = { experts: 4, sigmoid: false };

describe('the ranking of experts', () => {
  it('is by falling logit where the router chose the largest, the first expert of equal ones', () => {
    const ranking = new RouterRanking(pass([[1, 3, 3, 2]], [[1, 2]]), softmax);
    expect(ranking.rank(0)).toEqual([1, 2, 3, 0]);
    expect([...ranking.logits]).toEqual([1, 3, 3, 2]);
  });

  it('begins with the chosen experts, whatever the logits of others are', () => {
    const ranking = new RouterRanking(
      pass(
        [
          [9, 1, 2, 8],
          [0, 5, 1, 2],
        ],
        [
          [1, 2],
          [3, 1],
        ],
      ),
      softmax,
    );
    expect([...ranking.rank(0)]).toEqual([2, 1, 0, 3]);
    expect([...ranking.rank(1)]).toEqual([1, 3, 2, 0]);
  });

  it('takes experts over capacity by their logits', () => {
    expect(new RouterRanking(pass([[1, 4, 2, 3]], [[NO_EXPERT]]), softmax).rank(0)).toEqual([1, 3, 2, 0]);
  });

  it('gives logarithms of sigmoids, whose softmax are the shares of the sigmoids', () => {
    const logits = [-30, 0, 2, 40];
    const ranking = new RouterRanking(pass([logits], [[3, 2]]), { experts: 4, sigmoid: true });
    expect(ranking.rank(0)).toEqual([3, 2, 1, 0]);
    ranking.logits.forEach((value, e) => {
      expect(Math.exp(value)).toBeCloseTo(1 / (1 + Math.exp(-logits[e]!)), 6);
      expect(Number.isFinite(value)).toBe(true);
    });
  });
});
