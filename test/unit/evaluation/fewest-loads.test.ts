import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fewestLoads } from '../../../src/evaluation/fewest-loads.js';
import { Belady } from '../../../src/inference/belady.js';

const EXPERTS = 7;
const visits = fc.array(
  fc.uniqueArray(fc.nat(EXPERTS - 1), { maxLength: 4 }).map((ids) => ids.sort((a, b) => a - b)),
  { maxLength: 30 },
);

describe('fewest loads', () => {
  it('are those of Belady with every visit in view', () => {
    fc.assert(
      fc.property(visits, fc.integer({ min: 1, max: EXPERTS }), (all, slots) => {
        const belady = new Belady(EXPERTS, slots, all.length);
        for (const [batch, ids] of all.entries()) belady.add({ batch, ids });
        belady.add({ batch: 2 * all.length, ids: [] });
        expect(fewestLoads(all, EXPERTS, slots)).toBe(belady.loads);
      }),
      { numRuns: 300 },
    );
  });

  it('keep what comes back soonest', () => {
    const ids = [0, 1, 2, 0, 1, 2].map((id) => [id]);
    expect(fewestLoads(ids, 3, 2)).toBe(4);
    expect(fewestLoads(ids, 3, 3)).toBe(3);
    expect(fewestLoads([[0, 1, 2]], 3, 1)).toBe(3);
    // A layer of more experts than slots: 0 stays, the others take turns.
    expect(fewestLoads([[0, 1, 2], [0]], 3, 2)).toBe(3);
    expect(fewestLoads([], 3, 1)).toBe(0);
  });
});
