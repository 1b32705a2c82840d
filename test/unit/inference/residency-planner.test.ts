import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { EVICTION_POLICIES } from '../../support/reference-planner/eviction-policies.js';
import type { PlannedVisit } from '../../support/reference-planner/planned-visit.js';
import { planResidency, UNKNOWN_LINK } from '../../support/reference-planner/residency-planner.js';
import { anyResidency, residencyOf } from './residency-fixture.js';

const PER_LAYER = 4;
const FARTHEST = EVICTION_POLICIES['farthest-next-use'];

/** The least chance at which a load pays over a link of which nothing is known. */
const KNOWN = 0.95;

function visit(layer: number, chances: Record<number, number>): PlannedVisit {
  const entries = Object.entries(chances).filter(([, chance]) => chance > 0);
  return {
    firstId: layer * PER_LAYER,
    experts: PER_LAYER,
    ids: entries.map(([index]) => layer * PER_LAYER + Number(index)),
    chances: entries.map(([, chance]) => chance),
  };
}

const experts = (state: (id: number) => number) =>
  residencyOf(Array.from({ length: 2 * PER_LAYER }, (_, id) => ({ state: state(id) })));

describe('residency planner', () => {
  it('loads experts that are likely needed and absent, in the order of the visits, once each', () => {
    const { loads } = planResidency({
      visits: [visit(0, { 1: 1, 3: 0.99, 2: 0.4 }), visit(1, { 0: 1, 2: 1 }), visit(0, { 0: 1, 3: 1 })],
      passVisits: 2,
      batchVisits: 2,
      prefetchVisits: 9,
      residency: experts((id) => (id === 1 ? 2 : 0)),
      link: UNKNOWN_LINK,
      policy: FARTHEST,
    });
    expect([...loads]).toEqual([3, 4, 6, 0]);
  });

  it('prefetches only for the given visits, however likely later needs are', () => {
    const { loads } = planResidency({
      visits: [visit(0, { 0: 1 }), visit(1, { 1: 1 }), visit(0, { 2: 1 })],
      passVisits: 1,
      batchVisits: 1,
      prefetchVisits: 2,
      residency: experts(() => 0),
      link: UNKNOWN_LINK,
      policy: FARTHEST,
    });
    expect([...loads]).toEqual([0, 5]);
  });

  it('gives keys by the time of the next use, and larger keys to experts that no table lists', () => {
    const { keys, keysAfter } = planResidency({
      visits: [visit(0, { 0: 1 }), visit(1, { 0: 1 }), visit(0, { 0: 1, 1: 1 }), visit(1, { 1: 1 })],
      passVisits: 2,
      batchVisits: 2,
      prefetchVisits: 9,
      residency: experts(() => 2),
      link: UNKNOWN_LINK,
      policy: FARTHEST,
    });
    expect([keys[0], keys[4], keys[1], keys[5]]).toEqual([0, 1, 2, 3]);
    expect([keysAfter[0], keysAfter[1], keysAfter[5]]).toEqual([2, 2, 3]);
    for (const id of [2, 3, 6, 7]) expect(keys[id]).toBeGreaterThan(4);
    expect(keysAfter[4]).toBeGreaterThan(4);
  });

  it('ranks an unlikely need below a certain one', () => {
    const { keys } = planResidency({
      visits: [visit(0, { 0: 1, 1: 0.6, 2: 0.1 })],
      passVisits: 1,
      batchVisits: 1,
      prefetchVisits: 9,
      residency: experts(() => 2),
      link: UNKNOWN_LINK,
      policy: FARTHEST,
    });
    expect(keys[0]).toBeLessThan(keys[1]!);
    expect(keys[1]).toBeLessThan(keys[2]!);
    expect(keys[2]).toBeLessThan(keys[3]!);
  });

  it('protects only this pass under a policy without a forecast, and otherwise keeps its order', () => {
    const residency = residencyOf([{ loadedAt: 3 }, { loadedAt: 1 }, { loadedAt: 2 }, { loadedAt: 4 }]);
    const { keys, loads } = planResidency({
      visits: [visit(0, { 1: 1 }), visit(0, { 2: 1 })],
      passVisits: 1,
      batchVisits: 1,
      prefetchVisits: 9,
      residency,
      link: UNKNOWN_LINK,
      policy: EVICTION_POLICIES.fifo,
    });
    const order = [0, 1, 2, 3].sort((a, b) => keys[b]! - keys[a]!);
    expect(order).toEqual([2, 0, 3, 1]);
    expect(loads).toHaveLength(0);
  });

  it('plans no loads without tables', () => {
    const plan = planResidency({
      visits: [],
      passVisits: 0,
      batchVisits: 0,
      prefetchVisits: 9,
      residency: experts(() => 0),
      link: UNKNOWN_LINK,
      policy: FARTHEST,
    });
    expect(plan.loads).toHaveLength(0);
  });

  it('lists a load in flight that is still needed, so that it is not cancelled', () => {
    const { loads } = planResidency({
      visits: [visit(0, { 0: 1, 1: 1 }), visit(1, { 0: 1 })],
      passVisits: 2,
      batchVisits: 2,
      prefetchVisits: 2,
      residency: experts((id) => (id === 1 || id === 6 ? 1 : 0)),
      link: UNKNOWN_LINK,
      policy: FARTHEST,
    });
    expect([...loads].sort()).toEqual([0, 1, 4]);
  });

  it('plans distinct, likely loads that are absent or evicted first, with finite keys, and changes no input', () => {
    const chances = fc.array(fc.float({ min: 0, max: 1, noNaN: true }), { minLength: 4, maxLength: 4 });
    const visits = fc.array(fc.tuple(fc.nat(1), chances), { maxLength: 12 });
    const policies = fc.constantFrom(...Object.values(EVICTION_POLICIES));
    fc.assert(
      fc.property(
        visits,
        fc.nat(4),
        anyResidency,
        policies,
        fc.nat(3),
        (some, passVisits, any, policy, free) => {
          const rows = Array.from({ length: 8 }, (_, id) => ({
            state: any.state[id] ?? 0,
            useRate: any.useRate[id] ?? 0,
          }));
          const held = rows.filter(({ state }) => state !== 0).length;
          const residency = residencyOf(rows, Math.min(8, Math.max(1, held + free)));
          const given = structuredClone(residency);
          const expected = some.map(([layer, need]) => visit(layer, { ...need }));
          const { keys, keysAfter, loads, expendable } = planResidency({
            visits: expected,
            passVisits,
            batchVisits: passVisits,
            prefetchVisits: 12,
            residency,
            link: UNKNOWN_LINK,
            policy,
          });
          expect(residency).toEqual(given);
          expect([...keys, ...keysAfter].every(Number.isFinite)).toBe(true);
          expect(new Set(loads).size).toBe(loads.length);
          for (const id of loads) {
            if (residency.state[id] === 2)
              expect(Math.max(keys[id]!, keysAfter[id]!)).toBeGreaterThanOrEqual(expendable);
            const likely = expected.some(({ ids, chances }) => (chances[ids.indexOf(id)] ?? 0) >= KNOWN);
            expect(likely).toBe(true);
          }
        },
      ),
    );
  });

  it('asks more of what routers of later layers name while the link is busy', () => {
    const least = (busy: number) =>
      planResidency({
        ...{ visits: [], passVisits: 0, batchVisits: 0, prefetchVisits: 0 },
        link: { ...UNKNOWN_LINK, busy, stay: 10 },
        residency: experts(() => 0),
        policy: FARTHEST,
      }).leastForeseen!;
    expect(least(0.1)).toBeLessThan(0.6);
    expect(least(0.9)).toBeGreaterThan(0.9);
  });
});
