// The native planner plans as the reference in TypeScript does, pass after pass of any routing with any tables.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  ABSENT,
  type EvictionPolicyName,
  type PassNeeds,
  type TableNeeds,
} from '../../src/native/addon-types.js';
import { firstExpertsOf } from '../../src/native/model-shape.js';
import { EVICTION_POLICIES } from '../support/reference-planner/eviction-policies.js';
import type { ExpectedVisit } from '../support/reference-planner/expected-visit.js';
import { NeedCalibration } from '../support/reference-planner/need-calibration.js';
import { planResidency } from '../support/reference-planner/residency-planner.js';
import { addon } from './fixture.js';

/** Experts of each layer. */
const MODELS = [
  [6, 6, 6],
  [2, 6, 4],
];
const ROW = 6;

/** Chances that make ties, and some that do not. */
const chance = fc.oneof(
  fc.constantFrom(0, 0, 0, 1),
  fc.double({ min: 0.001, max: 0.999, noNaN: true }).map(Math.fround),
);
/** `needed` has indices inside their layers. */
const historyOf = (counts: readonly number[]) => {
  const table = fc.array(chance, { minLength: counts.length * ROW, maxLength: counts.length * ROW });
  const needed = fc.tuple(
    ...counts.map((count) => fc.uniqueArray(fc.nat(count - 1), { minLength: 1, maxLength: 4 })),
  );
  return fc.array(
    fc.record({ needed, table, known: fc.boolean(), control: fc.boolean(), behind: fc.boolean() }),
    { minLength: 3, maxLength: 90 },
  );
};
const setupsOf = (experts: number) =>
  fc.record({
    slots: fc.integer({ min: 1, max: experts - 1 }),
    pinned: fc.uniqueArray(fc.nat(experts - 1), { maxLength: 2 }),
    policy: fc.constantFrom(...(Object.keys(EVICTION_POLICIES) as EvictionPolicyName[])),
    lookahead: fc.nat(3),
    busy: fc.double({ min: 0, max: 1, noNaN: true }),
    stay: fc.constantFrom(3, 40, Number.POSITIVE_INFINITY),
  });

/** Added to keys of experts that may be evicted, beside which a share of a key would hide its order. */
const EXPENDABLE = 2 ** 40;

/** Policies without a forecast have whole numbers. */
function expectKeys(native: Float64Array, reference: Float64Array, policy: EvictionPolicyName): void {
  native.forEach((key, id) => {
    const other = reference[id]!;
    const own = other - (other >= EXPENDABLE ? EXPENDABLE : 0);
    const rounding = own === other ? 1e-9 * Math.max(1, Math.abs(own)) : 1e-3;
    expect(Math.abs(key - other), `${key} and ${other} of expert ${id}`).toBeLessThanOrEqual(
      policy === 'farthest-next-use' ? rounding : 0,
    );
  });
}

describe('the native planner', () => {
  it.each(MODELS)('plans as the reference does, with %i, %i and %i experts a layer', (...counts) => {
    const first = firstExpertsOf(counts, counts.length);
    const experts = first.at(-1)!;
    const visitsOf = ({ need }: TableNeeds): ExpectedVisit[] =>
      counts.map((count, layer) => ({
        firstId: first[layer]!,
        need: need.subarray(layer * ROW, layer * ROW + count),
      }));
    fc.assert(
      fc.property(
        historyOf(counts),
        setupsOf(experts),
        (passes, { slots, pinned, policy, lookahead, busy, stay }) => {
          const options = { layerExperts: Uint32Array.from(counts), slots, loadsInFlight: 2, policy };
          const store = new addon.WeightlessStore(options);
          store.pin(Uint32Array.from(pinned.slice(0, slots - 1)), true);
          const calibration = new NeedCalibration();
          const tables = passes.map(({ table }, id): TableNeeds => {
            return { id, layer: 0, need: Float32Array.from(table) };
          });
          const corrected = (each: readonly TableNeeds[]) =>
            each.flatMap(visitsOf).map((visit) => calibration.corrected(visit));
          passes.forEach(({ needed, known, control, behind }, at) => {
            const later = tables.slice(at + 1, at + 1 + lookahead);
            const needs: PassNeeds = {
              own: known ? [tables[at]!] : [],
              behind: behind ? later.slice(0, 1) : [],
              upcoming: later.slice(behind ? 1 : 0).map((each) => [each]),
              ...{ control, linkBusy: busy, slotStay: stay },
            };
            const [own, rest] = control ? [[], []] : [corrected(needs.own), corrected(needs.behind)];
            const upcoming = needs.upcoming.map((each) => corrected(each));
            const reference = planResidency({
              visits: [...own, ...rest, ...upcoming.flat()],
              passVisits: own.length,
              batchVisits: own.length + rest.length,
              prefetchVisits: own.length + rest.length + (upcoming[0]?.length ?? 0),
              link: { busy, stay },
              residency: store.residency(),
              policy: EVICTION_POLICIES[policy],
            });
            const native = store.plan(needs);
            expect([...native.loads]).toEqual([...reference.loads]);
            expectKeys(native.keys, reference.keys, policy);
            expectKeys(native.keysAfter, reference.keysAfter, policy);
            expectKeys(native.keysUnneeded!, reference.keysUnneeded!, policy);
            expect(native).toMatchObject({
              expendable: reference.expendable,
              newestFirst: reference.newestFirst,
              patient: reference.patient ?? false,
            });
            expect(native.leastForeseen).toBeCloseTo(reference.leastForeseen!, 12);
            store.startPass(native);
            const found = new Uint8Array(counts.length * ROW);
            needed.forEach((indices, layer) => {
              for (const index of indices) found[layer * ROW + index] = 1;
              store.visit(Uint32Array.from(indices.sort(), (index) => first[layer]! + index));
            });
            store.learn(needs, found);
            for (const own of needs.own)
              visitsOf(own).forEach((visit, layer) => {
                calibration.learn(visit, found.subarray(layer * ROW, layer * ROW + visit.need.length));
              });
          });
          expect(store.tableWeight).toBeCloseTo(calibration.tableWeight, 9);
        },
      ),
      { numRuns: 300 },
    );
  });

  it.each([
    ['fifo', 0],
    ['lfu', 1],
    ['lru', 2],
    ['expert-buffering', 3],
  ] as const)('evicts by %s', (policy, victim) => {
    const layerExperts = Uint32Array.of(5);
    const store = new addon.WeightlessStore({ layerExperts, slots: 4, loadsInFlight: 1, policy });
    const nothing = { own: [], behind: [], upcoming: [], control: false, linkBusy: 1, slotStay: 1 };
    // Expert 1 is used least, and 2 was not for longest.
    for (const expert of [0, 1, 2, 3, 2, 2, 3, 3, 0, 0, 1, 4]) {
      store.startPass(store.plan(nothing));
      store.visit(Uint32Array.of(expert));
    }
    expect(store.residency().state.indexOf(ABSENT)).toBe(victim);
  });

  it('refuses tables that do not fit the model', () => {
    const layerExperts = Uint32Array.of(4, 2);
    const store = new addon.WeightlessStore({ layerExperts, slots: 2, loadsInFlight: 1 });
    const needs = (layer: number, length: number): PassNeeds => ({
      own: [{ id: 1, layer, need: new Float32Array(length) }],
      ...{ behind: [], upcoming: [], control: false, linkBusy: 1, slotStay: 1 },
    });
    expect(() => store.plan(needs(0, 8))).not.toThrow();
    expect(() => store.plan(needs(1, 4))).not.toThrow();
    for (const wrong of [needs(0, 12), needs(1, 8), needs(0, 6), needs(3, 0), needs(2 ** 32 - 1, 4)])
      expect(() => store.plan(wrong)).toThrow('of a model with 2 MoE layers and rows of 4 experts');
    expect(() => store.learn(needs(0, 8), new Uint8Array(4))).toThrow('2 MoE layers; it has 1');
    for (const link of [{ linkBusy: Number.NaN }, { linkBusy: 1.1 }, { slotStay: -1 }])
      expect(() => store.plan({ ...needs(0, 8), ...link })).toThrow('a link is busy');
    for (const fault of [{ own: 5 }, { own: [null] }, { upcoming: undefined }])
      expect(() => store.plan({ ...needs(0, 8), ...fault } as never)).toThrow(/"(own|upcoming)"/);
  });

  it('takes chances that are none as 0 or 1', () => {
    const layerExperts = Uint32Array.of(4);
    const store = new addon.WeightlessStore({ layerExperts, slots: 2, loadsInFlight: 1 });
    const needs = (id: number, ...need: number[]): PassNeeds => ({
      own: [{ id, layer: 0, need: Float32Array.from(need) }],
      ...{ behind: [], upcoming: [], control: false, linkBusy: 1, slotStay: 1 },
    });
    const wrong = needs(1, Number.NaN, -1, 2, Number.POSITIVE_INFINITY);
    expect([...store.plan(wrong).loads]).toEqual([2, 3]);
    store.learn(wrong, Uint8Array.of(0, 0, 1, 1));
    expect(store.tableWeight).toBeGreaterThan(0.5);
    expect(() => store.startPass(needs(2, 1, 0, 0, 0))).not.toThrow();
  });
});
