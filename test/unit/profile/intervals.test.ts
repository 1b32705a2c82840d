import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Interval, intersection, length, union } from '../../../src/profile/intervals.js';

const intervals = fc.array(
  fc
    .tuple(fc.integer({ min: 0, max: 60 }), fc.integer({ min: 0, max: 12 }))
    .map(([begin, size]) => ({ begin, end: begin + size })),
  { maxLength: 12 },
);

/** The whole units of time that any of the intervals covers. */
function units(list: readonly Interval[]): Set<number> {
  const covered = new Set<number>();
  for (const { begin, end } of list) for (let at = begin; at < end; at++) covered.add(at);
  return covered;
}

describe('intervals', () => {
  it('cover the same time as their union', () => {
    fc.assert(
      fc.property(intervals, (list) => {
        expect(units(union(list))).toEqual(units(list));
        expect(length(union(list))).toBe(units(list).size);
      }),
    );
  });

  it('intersect in the time that both cover', () => {
    fc.assert(
      fc.property(intervals, intervals, (a, b) => {
        const both = new Set([...units(a)].filter((at) => units(b).has(at)));
        expect(new Set([...units(intersection(union(a), union(b)))])).toEqual(both);
      }),
    );
  });
});
