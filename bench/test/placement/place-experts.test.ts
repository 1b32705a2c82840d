// Placements worked out by hand, and what holds for any loads.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
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
});
