import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Belady } from '../../../src/inference/belady.js';

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

const single = fc.array(fc.nat(EXPERTS - 1), { minLength: 1, maxLength: 9 });

describe('Belady', () => {
  it('loads no more than the best eviction order if the whole future is in view', () => {
    fc.assert(
      fc.property(single, fc.integer({ min: 1, max: 3 }), (ids, slots) => {
        const belady = new Belady(EXPERTS, slots, ids.length);
        for (const [batch, id] of ids.entries()) belady.add({ batch, ids: [id] });
        const loads = belady.lastLoads(ids.length).flat().length;
        expect(loads).toBe(
          fewest(
            ids.map((id) => [id]),
            slots,
          ),
        );
      }),
      { numRuns: 300 },
    );
  });

  it('counts a visit once its look-ahead is known', () => {
    fc.assert(
      fc.property(single, fc.integer({ min: 1, max: 3 }), (ids, slots) => {
        const late = new Belady(EXPERTS, slots, 2);
        for (const [batch, id] of ids.entries()) late.add({ batch, ids: [id] });
        expect(late.loads + late.lastLoads(3).flat().length).toBeGreaterThanOrEqual(
          fewest(
            ids.map((id) => [id]),
            slots,
          ),
        );
        for (let batch = ids.length; batch < ids.length + 3; batch++) late.add({ batch, ids: [] });
        expect(late.loads).toBeLessThanOrEqual(ids.length);
      }),
    );
  });

  it('sees no further than its look-ahead', () => {
    // 0 and 1 are held when 2 is needed. With a view of one batch both look alike, so the less used one is evicted.
    const visits = [[0], [0], [1], [2], [3], [1]];
    const near = new Belady(EXPERTS, 2, 1);
    const far = new Belady(EXPERTS, 2, 9);
    for (const [batch, ids] of visits.entries()) {
      near.add({ batch, ids });
      far.add({ batch, ids });
    }
    expect(far.lastLoads(6).flat()).toHaveLength(4);
    expect(near.loads + near.lastLoads(2).flat().length).toBe(5);
  });

  it('settles visits of a very long batch before it ends', () => {
    const belady = new Belady(EXPERTS, 1, 1);
    for (let visit = 0; visit < 1000; visit++) belady.add({ batch: 0, ids: [visit % 2] });
    expect(belady.loads).toBe(1000 - 96);
    expect(belady.lastLoads(1000)).toHaveLength(96);
  });

  it('follows a change of slots', () => {
    const belady = new Belady(EXPERTS, 3, 0);
    [[0], [1], [2]].forEach((ids, batch) => {
      belady.add({ batch, ids });
    });
    belady.slots = 1;
    [[3], [0], [1]].forEach((ids, i) => {
      belady.add({ batch: 3 + i, ids });
    });
    expect(belady.loads + belady.lastLoads(1).flat().length).toBe(6);
  });
});
