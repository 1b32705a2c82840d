// What the simulated store does by itself; test/integration/eval.test.ts holds it against the native one.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fewestLoads } from '../../../src/evaluation/fewest-loads.js';
import { StoreSimulation } from '../../../src/evaluation/store-simulation.js';
import type { ResidencyPlan } from '../../../src/native/addon-types.js';

const EXPERTS = 8;

function planOf(keys: number[], loads: number[], after = keys, expendable = 0): ResidencyPlan {
  const spread = (values: number[]) => Float64Array.from({ length: EXPERTS }, (_, id) => values[id] ?? 100);
  return {
    keys: spread(keys),
    keysAfter: spread(after),
    loads: Uint32Array.from(loads),
    expendable,
    newestFirst: false,
  };
}

const residents = (store: StoreSimulation) =>
  [...store.residency().state.keys()].filter((id) => store.residency().state[id] === 2);

describe('the simulated store', () => {
  it('loads on demand and lets the least recently used go', () => {
    const store = new StoreSimulation(EXPERTS, 2);
    store.startPass(null);
    for (const ids of [[0], [1], [0], [2]]) store.visit(ids);
    expect([store.loads, residents(store)]).toEqual([3, [0, 2]]);
  });

  it('runs a layer that needs more experts than there are slots', () => {
    const store = new StoreSimulation(EXPERTS, 1);
    store.startPass(null);
    store.visit([1, 3, 5]);
    store.visit([5]);
    expect([store.loads, residents(store)]).toEqual([3, [5]]);
  });

  it('prefetches into free slots, then in the place of experts with larger keys alone', () => {
    const store = new StoreSimulation(EXPERTS, 2);
    store.startPass(planOf([0, 1, 2, 3], [0, 3, 1, 2]));
    // 3 had a slot first and gave way to 1; 2 found nothing that is needed later.
    expect([store.loads, residents(store)]).toEqual([3, [0, 1]]);
  });

  it('prefetches in the place of expendable experts alone, and who is brought back is so no longer', () => {
    const store = new StoreSimulation(EXPERTS, 2);
    store.startPass(planOf([], [0, 1]));
    // 6 takes the slot of 0, which is needed again at 3; 1 may go once it has been used.
    const plan = planOf([103, 9, 0, 0, 0, 0, 1, 5], [6, 0, 7], [103, 150, 0, 0, 0, 0, 1, 5], 100);
    const given = structuredClone(plan);
    store.startPass(plan);
    expect(residents(store)).toEqual([1, 6]);
    store.visit([1]);
    expect(residents(store)).toEqual([0, 6]);
    expect(plan).toEqual(given);
  });

  it('lets a layer with enough at hand wait for a better victim among its own', () => {
    const left = (needed: number[], expendable: number) => {
      const store = new StoreSimulation(EXPERTS, 6);
      store.startPass(planOf([], [0, 1, 2, 3, 4, 7]));
      store.startPass(planOf([0, 0, 0, 0, 0, 0, 0, 1], [], [50, 0, 0, 0, 0, 0, 0, 1], expendable));
      store.visit(needed);
      return residents(store).includes(7);
    };
    expect(left([0, 1, 2, 3, 4, 5], 100)).toBe(true);
    expect(left([0, 1, 2, 3, 4, 5], 0)).toBe(false);
    expect(left([0, 1, 5], 100)).toBe(false);
  });

  it('judges a used expert by its key from then on', () => {
    const store = new StoreSimulation(EXPERTS, 2);
    store.startPass(planOf([0, 1, 2], [0, 1, 2], [50, 60, 2]));
    expect(residents(store)).toEqual([0, 1]);
    store.visit([0]);
    expect(residents(store)).toEqual([1, 2]);
  });

  it('never evicts what is pinned', () => {
    const store = new StoreSimulation(EXPERTS, 3);
    store.pin([0, 7]);
    store.startPass(null);
    for (const ids of [[1], [2], [0, 3], [7]]) store.visit(ids);
    expect([store.loads, residents(store)]).toEqual([5, [0, 3, 7]]);
  });

  it('pins what is at hand before it loads the rest, and tells of every load and use', () => {
    const seen: string[] = [];
    const store = new StoreSimulation(EXPERTS, 3, {
      load: (id, demanded) => seen.push(`${demanded ? 'demand' : 'load'} ${id}`),
      use: (id) => seen.push(`use ${id}`),
    });
    store.startPass(planOf([], [6]));
    for (const ids of [[1], [2]]) store.visit(ids);
    // The least recently used would go for 7, were 1 not pinned with it.
    store.pin([7, 1]);
    expect(seen).toEqual(['load 6', 'use 1', 'demand 1', 'use 2', 'demand 2', 'load 7']);
    expect(residents(store)).toEqual([1, 2, 7]);
  });

  it('keeps its slots and never beats Belady, whatever the plans', () => {
    const keys = fc.array(fc.nat(9), { minLength: EXPERTS, maxLength: EXPERTS });
    const loads = fc.uniqueArray(fc.nat(EXPERTS - 1), { maxLength: 5 });
    const ids = fc
      .uniqueArray(fc.nat(EXPERTS - 1), { minLength: 1, maxLength: 3 })
      .map((list) => list.sort((a, b) => a - b));
    const passes = fc.array(fc.tuple(keys, keys, loads, fc.array(ids, { maxLength: 3 }), fc.nat(10)), {
      maxLength: 12,
    });
    fc.assert(
      // Where a visit needs more experts than there are slots, the fewest depend on their order inside the visit.
      fc.property(passes, fc.integer({ min: 3, max: EXPERTS }), (all, slots) => {
        const store = new StoreSimulation(EXPERTS, slots);
        for (const [before, after, prefetches, visits, expendable] of all) {
          store.startPass(planOf(before, prefetches, after, expendable));
          for (const visit of visits) {
            store.visit(visit);
            const { state, freeSlots } = store.residency();
            expect(state.filter((held) => held !== 0).length + freeSlots).toBe(slots);
          }
        }
        const visits = all.flatMap(([, , , own]) => own);
        expect(store.loads).toBeGreaterThanOrEqual(fewestLoads(visits, EXPERTS, slots));
      }),
    );
  });
});
