// The expert store without weights, which replays use.
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
});
