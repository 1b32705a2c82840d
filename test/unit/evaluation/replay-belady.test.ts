import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { replayBelady } from '../../../src/evaluation/replay-rules.js';

const EXPERTS = 6;

/** The minimal number of loads, found by trying every eviction. */
function fewest(visits: number[][], slots: number, at = 0, held: readonly number[] = []): number {
  if (at === visits.length) return 0;
  const missing = visits[at]!.filter((id) => !held.includes(id));
  let states: number[][] = [[...held]];
  for (const id of missing) {
    states = states.flatMap((state) =>
      state.length < slots
        ? [[...state, id]]
        : state.map((victim) => [...state.filter((other) => other !== victim), id]),
    );
  }
  return missing.length + Math.min(...states.map((state) => fewest(visits, slots, at + 1, state)));
}

const ids = fc.array(fc.nat(EXPERTS - 1), { minLength: 1, maxLength: 9 });
const slots = fc.integer({ min: 1, max: 3 });

/** Loads when every visit is a batch of its own. */
function loads(visits: number[][], slots: number, lookahead: number): number {
  let count = 0;
  const load = () => {
    count += 1;
  };
  const batches = visits.map((needed) => ({ passes: [{ visits: [needed] }] }));
  replayBelady(batches, { experts: EXPERTS, slots }, lookahead, { load });
  return count;
}

describe("Belady's rule", () => {
  it('loads no more than the best eviction order if the whole future is in view', () => {
    fc.assert(
      fc.property(ids, slots, (needed, slots) => {
        const visits = needed.map((id) => [id]);
        expect(loads(visits, slots, visits.length)).toBe(fewest(visits, slots));
      }),
      { numRuns: 300 },
    );
  });

  it('loads no less with a shorter look-ahead', () => {
    fc.assert(
      fc.property(ids, slots, (needed, slots) => {
        const visits = needed.map((id) => [id]);
        expect(loads(visits, slots, 2)).toBeGreaterThanOrEqual(fewest(visits, slots));
      }),
    );
  });

  it('sees no further than its look-ahead', () => {
    // 0 and 1 are held when 2 is needed. With a view of one batch both look alike, so the less used one is evicted.
    const visits = [[0], [0], [1], [2], [3], [1]];
    expect(loads(visits, 2, 9)).toBe(4);
    expect(loads(visits, 2, 1)).toBe(5);
  });
});
