// Placements worked out by hand, and what holds for any loads.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  busiestPart,
  loadsOf,
  placeAntiCorrelated,
  placeByIndex,
  placeGreedily,
} from '../../../src/placement/place-experts.js';

const rows = (...all: number[][]) => all.map((row) => Float64Array.from(row));

describe('placements', () => {
  it('by index give each share a run of experts, the first ones what does not divide', () => {
    expect(placeByIndex(5, 3)).toEqual([0, 0, 1, 1, 2]);
  });

  it('greedy give the most loaded expert left to the least loaded share', () => {
    expect(placeGreedily(rows([0.1, 0.2, 0.3, 0.4]), 2)).toEqual([0, 1, 1, 0]);
  });

  it('anti-correlated part experts that are busy in the same batches, where greedy does not see them', () => {
    const history = rows([0.5, 0, 0.5, 0], [0, 0.5, 0, 0.5]);
    expect([placeGreedily(history, 2), placeAntiCorrelated(history, 2)]).toEqual([
      [0, 1, 0, 1],
      [0, 0, 1, 1],
    ]);
    expect(busiestPart(placeGreedily(history, 2), 2, history)).toBe(1);
    expect(busiestPart(placeAntiCorrelated(history, 2), 2, history)).toBe(0.5);
  });

  it('give every share as many experts, give or take one, whatever was recorded', () => {
    const choices = fc.array(fc.nat(8), { minLength: 4, maxLength: 60 });
    fc.assert(
      fc.property(choices, fc.integer({ min: 1, max: 9 }), (recorded, shares) => {
        const history = loadsOf(recorded, { experts: 9, topK: 2, batchTokens: 2 });
        for (const placement of [placeGreedily(history, shares), placeAntiCorrelated(history, shares)]) {
          const held = Array.from(
            { length: shares },
            (_, share) => placement.filter((own) => own === share).length,
          );
          expect(held).toEqual(
            held.map((_, share) => placeByIndex(9, shares).filter((own) => own === share).length),
          );
        }
      }),
    );
  });
});
