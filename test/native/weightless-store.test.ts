// The expert store without weights, which replays use.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ResidencyPlan, WeightlessStore } from '../../src/native/addon-types.js';
import { addon, thrown } from './fixture.js';

const EXPERTS = 8;

function openStore(slots: number, loadsInFlight = 4): WeightlessStore {
  return new addon.WeightlessStore({ layerExperts: Uint32Array.of(EXPERTS), slots, loadsInFlight });
}

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

const residents = (store: WeightlessStore) =>
  [...store.residency().state.keys()].filter((id) => store.residency().state[id] === 2);
const visit = (store: WeightlessStore, ids: number[]) => store.visit(Uint32Array.from(ids));

describe('the store without weights', () => {
  it('loads on demand, evicts the least recently used, and reports the loads of each call', () => {
    const store = openStore(2);
    expect(store.startPass(null)).toBeNull();
    const loads = [[0], [1], [0], [2]].map((ids) => visit(store, ids));
    expect(loads.map((all) => all && [...all.demanded])).toEqual([[0], [1], null, [2]]);
    expect(residents(store)).toEqual([0, 2]);
  });

  it('does not change the plan', () => {
    const store = openStore(2);
    store.startPass(planOf([], [0, 1]));
    const plan = planOf([103, 9, 0, 0, 0, 0, 1, 5], [6, 0, 7], [103, 150, 0, 0, 0, 0, 1, 5], 100);
    const given = structuredClone(plan);
    store.startPass(plan);
    visit(store, [1]);
    expect(residents(store)).toEqual([0, 6]);
    expect(plan).toEqual(given);
  });

  it('makes a patient layer keep an expendable expert for those that it will release, once its loads fill the disk', () => {
    const evicted = (patient: boolean, needed: number[], loadsInFlight: number) => {
      const store = openStore(3, loadsInFlight);
      store.startPass(planOf([], [5, 6, 7]));
      const after = [50, 50, 50, 50, 50, 0, 0, 0];
      store.startPass({ ...planOf([0, 0, 0, 0, 0, 11, 12, 13], [], after, 10), patient });
      visit(store, needed);
      return [5, 6, 7].filter((id) => !residents(store).includes(id));
    };
    expect(evicted(false, [0, 1, 2, 3], 1)).toEqual([5, 6, 7]);
    expect(evicted(true, [0, 1, 2, 3], 1)).toEqual([7]);
    expect(evicted(true, [0, 1, 2, 3], 2)).toEqual([6, 7]);
  });

  it('refuses unknown experts, unsorted experts, and pins that leave no slot', () => {
    const store = openStore(2);
    const all = Uint32Array.of(0, 1);
    expect(thrown(() => visit(store, [8])).message).toBe('expert 8 of 8');
    expect(thrown(() => visit(store, [2, 1])).message).toMatch(/ascending/);
    expect(thrown(() => store.pin(all, true)).message).toMatch(/2 pinned experts do not fit: 2 slots/);
    expect(thrown(() => openStore(0)).message).toMatch(/"slots"/);
    expect(store.residency().visits).toBe(0);
  });

  it('keeps its slots, whatever the plans', () => {
    const keys = fc.array(fc.nat(9), { minLength: EXPERTS, maxLength: EXPERTS });
    const loads = fc.uniqueArray(fc.nat(EXPERTS - 1), { maxLength: 5 });
    const ids = fc
      .uniqueArray(fc.nat(EXPERTS - 1), { minLength: 1, maxLength: 3 })
      .map((list) => list.sort((a, b) => a - b));
    const passes = fc.array(fc.tuple(keys, keys, loads, fc.array(ids, { maxLength: 3 }), fc.nat(10)), {
      maxLength: 12,
    });
    fc.assert(
      fc.property(passes, fc.integer({ min: 1, max: EXPERTS }), (all, slots) => {
        const store = openStore(slots);
        for (const [before, after, prefetches, visits, expendable] of all) {
          store.startPass(planOf(before, prefetches, after, expendable));
          for (const needed of visits) {
            visit(store, needed);
            store.checkIntegrity();
          }
        }
      }),
    );
  });
});
