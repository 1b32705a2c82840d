import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fewestLoads, leastBytes } from '../../src/replay/fewest-loads.js';

const EXPERTS = 7;
const setOf = (ids: readonly number[]) => ids.reduce((set, id) => set | (1 << id), 0);

interface Trial {
  /** What a load of an expert costs. */
  costs?: readonly number[];
  /** Held before the first visit. */
  begin?: readonly number[];
}

/**
 * Finds the lowest cost of loads by brute force. After a visit, the device holds any subset of the experts that it held
 * or that the visit needed, with at least one of the loaded experts.
 */
function byTrying(
  all: readonly (readonly number[])[],
  slots: number,
  { costs = new Array(EXPERTS).fill(1), begin = [] }: Trial = {},
): number {
  const cost = (set: number) => costs.reduce((sum, one, id) => sum + ((set >>> id) & 1) * one, 0);
  let least = new Map([[setOf(begin), 0]]);
  for (const ids of all) {
    const needed = setOf(ids);
    const after = new Map<number, number>();
    for (const [held, loads] of least) {
      const missing = needed & ~held;
      for (let left = 0; left < 1 << EXPERTS; left++) {
        if ((left & ~(held | needed)) !== 0 || count(left) > slots) continue;
        if (missing !== 0 && (left & missing) === 0) continue;
        after.set(left, Math.min(after.get(left) ?? Number.POSITIVE_INFINITY, loads + cost(missing)));
      }
    }
    least = after;
  }
  return Math.min(...least.values());
}

function count(set: number): number {
  return set === 0 ? 0 : (set & 1) + count(set >>> 1);
}

describe('fewest loads', () => {
  const fewVisits = fc.array(
    fc.uniqueArray(fc.nat(4), { maxLength: 4 }).map((ids) => ids.sort((a, b) => a - b)),
    { maxLength: 8 },
  );

  it('are as few as a brute-force search finds', () => {
    const begins = fc.uniqueArray(fc.nat(4), { maxLength: 5 });
    fc.assert(
      fc.property(fewVisits, fc.integer({ min: 1, max: 5 }), begins, (all, slots, some) => {
        const begin = some.slice(0, slots);
        expect(fewestLoads(all, EXPERTS, slots, { begin })).toBe(byTrying(all, slots, { begin }));
      }),
      // In the first example, 1 stays for the last visit: it is loaded after 0, which is not needed again. In the
      // second one, 1 and 2 are needed again at once.
      {
        numRuns: 300,
        examples: [
          [[[2], [0, 1], [1]], 1, []],
          [[[1, 2], [1, 2], [2]], 1, []],
        ],
      },
    );
  });

  it('are the least bytes where all experts have one size, and a bound of them where not', () => {
    const sizes = fc.array(fc.integer({ min: 1, max: 4 }), { minLength: EXPERTS, maxLength: EXPERTS });
    fc.assert(
      fc.property(fewVisits, sizes, fc.integer({ min: 1, max: 5 }), (all, costs, slots) => {
        const begin = [0, 1].slice(0, slots);
        const one = { experts: EXPERTS, slots, begin };
        const alike = leastBytes(all, { ...one, bytesOf: () => 3 });
        expect(alike).toBe(3 * fewestLoads(all, EXPERTS, slots, { begin }));
        const mixed = leastBytes(all, { ...one, bytesOf: (id) => costs[id]! });
        const best = byTrying(all, slots, { costs, begin });
        expect(mixed).toBeLessThanOrEqual(best);
        expect(mixed).toBeGreaterThanOrEqual(Math.min(...costs) * fewestLoads(all, EXPERTS, slots, { begin }));
      }),
      { numRuns: 200 },
    );
    // The large expert stays, though a small one is needed sooner: the fewest loads would be 22 bytes.
    const visits = [[0], [1], [2], [1], [0]];
    expect(leastBytes(visits, { experts: 3, slots: 2, bytesOf: (id) => (id === 0 ? 10 : 1) })).toBe(13);
  });

  it('keep the expert with the nearest next use', () => {
    const ids = [0, 1, 2, 0, 1, 2].map((id) => [id]);
    expect(fewestLoads(ids, 3, 2)).toBe(4);
    expect(fewestLoads(ids, 3, 3)).toBe(3);
    expect(fewestLoads([[0, 1, 2]], 3, 1)).toBe(3);
    // A layer needs more experts than there are slots. Expert 0 stays, and the others replace each other.
    expect(fewestLoads([[0, 1, 2], [0]], 3, 2)).toBe(3);
    expect(fewestLoads([], 3, 1)).toBe(0);
  });
});
