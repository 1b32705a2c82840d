// Placements worked out by hand, and what holds for any loads.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { correlations } from '../../src/placement/correlation.js';
import { placeAntiCorrelated, placeByIndex, placeGreedily } from '../../src/placement/place-experts.js';
import { anyTask, rows } from './loads.js';

describe('by hand', () => {
  it('by index gives each device a run of experts, the first ones what does not divide', () => {
    expect(placeByIndex(6, 3)).toEqual([0, 0, 1, 1, 2, 2]);
    expect(placeByIndex(5, 3)).toEqual([0, 0, 1, 1, 2]);
  });

  it('greedy gives the most loaded expert left to the least loaded device', () => {
    expect(placeGreedily(rows([0.4, 0.3, 0.2, 0.1]), 2)).toEqual([0, 1, 1, 0]);
    expect(placeGreedily(rows([0.1, 0.2, 0.3, 0.4]), 2)).toEqual([0, 1, 1, 0]);
  });

  it('greedy places by the mean over the batches', () => {
    expect(placeGreedily(rows([1, 0, 0, 0], [0, 0.2, 0.4, 0.4]), 2)).toEqual([0, 0, 1, 1]);
  });

  it('greedy leaves a device out that holds its number of experts', () => {
    expect(placeGreedily(rows([0.7, 0.1, 0.1, 0.1]), 2)).toEqual([0, 1, 1, 0]);
  });

  it('anti-correlation parts experts that are busy in the same batches, where greedy does not see them', () => {
    const history = rows([0.5, 0, 0.5, 0], [0, 0.5, 0, 0.5]);
    expect(placeGreedily(history, 2)).toEqual([0, 1, 0, 1]);
    expect(placeAntiCorrelated(history, 2)).toEqual([0, 0, 1, 1]);
  });

  it('anti-correlation weighs a correlation half', () => {
    // Loads .45 .3 .15 .1; 0 and 1 are opposites. 1 sees .45 - .5 on the first device and 0 on the second.
    const history = rows([0.5, 0.2, 0.2, 0.1], [0.4, 0.4, 0.1, 0.1]);
    expect(placeGreedily(history, 2)).toEqual([0, 1, 1, 0]);
    expect(placeAntiCorrelated(history, 2)).toEqual([0, 0, 1, 1]);
    // With a weight of .4 it sees .45 - .4, and 2, which goes as 0 does, .45 + .4 and .3 - .4.
    expect(placeAntiCorrelated(history, 2, 0.4)).toEqual([0, 1, 1, 0]);
  });

  it('correlates as Pearson does; a load that never changes with nobody', () => {
    const [first, , constant] = correlations(rows([0.1, 0.7, 0.2], [0.3, 0.5, 0.2], [0.2, 0.6, 0.2]));
    expect(first![0]).toBeCloseTo(1);
    expect(first![1]).toBeCloseTo(-1);
    expect([...constant!]).toEqual([0, 0, 0]);
    // Deviations -.2 .1 .1 and -.1 .2 -.1: .03 / √(.06 · .06).
    const [a] = correlations(rows([0, 0.1], [0.3, 0.4], [0.3, 0.1]));
    expect(a![1]).toBeCloseTo(0.5);
  });
});

describe('any placement', () => {
  const strategies = {
    index: (loads: Parameters<typeof placeGreedily>[0], devices: number) =>
      placeByIndex(loads[0]!.length, devices),
    greedy: placeGreedily,
    'anti-correlation': placeAntiCorrelated,
  };

  it.each(Object.entries(strategies))(
    '%s gives every device as many experts, give or take one',
    (_, place) => {
      fc.assert(
        fc.property(anyTask, ({ loads, devices }) => {
          const placement = place(loads, devices);
          const held = Array.from({ length: devices }, (_, device) => placement.filter((d) => d === device));
          expect(placement).toHaveLength(loads[0]!.length);
          expect(held.reduce((sum, own) => sum + own.length, 0)).toBe(placement.length);
          expect(Math.max(...held.map(({ length }) => length))).toBe(Math.ceil(placement.length / devices));
          expect(Math.min(...held.map(({ length }) => length))).toBe(Math.floor(placement.length / devices));
        }),
      );
    },
  );

  it('greedy does not care how experts are numbered', () => {
    const task = fc
      .uniqueArray(fc.integer({ min: 1, max: 1000 }), { minLength: 1, maxLength: 12 })
      .chain((loads) =>
        fc.record({
          loads: fc.constant(loads),
          renamed: fc.shuffledSubarray([...loads.keys()], { minLength: loads.length }),
          devices: fc.integer({ min: 1, max: loads.length }),
        }),
      );
    fc.assert(
      fc.property(task, ({ loads, renamed, devices }) => {
        const placement = placeGreedily(rows(loads), devices);
        const other = placeGreedily(rows(renamed.map((expert) => loads[expert]!)), devices);
        expect(other).toEqual(renamed.map((expert) => placement[expert]));
      }),
    );
  });

  it('anti-correlation without weight is greedy', () => {
    fc.assert(
      fc.property(anyTask, ({ loads, devices }) => {
        expect(placeAntiCorrelated(loads, devices, 0)).toEqual(placeGreedily(loads, devices));
      }),
    );
  });
});
