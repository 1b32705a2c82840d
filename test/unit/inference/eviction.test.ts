import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { EvictionPolicyName, Residency } from '../../../src/native/addon-types.js';
import { EVICTION_POLICIES } from '../../support/reference-planner/eviction-policies.js';
import { PlanBuffers } from '../../support/reference-planner/plan-buffers.js';
import { anyResidency, residencyOf } from './residency-fixture.js';

const NOTHING_KNOWN = { count: 0, own: [] };
function ranks(name: EvictionPolicyName, residency: Residency) {
  const { ranks: into } = new PlanBuffers(residency.state.length);
  EVICTION_POLICIES[name].rank(residency, NOTHING_KNOWN, into);
  return into;
}

const NAMES = Object.keys(EVICTION_POLICIES) as EvictionPolicyName[];

/**
 * The resident experts in the order in which the store would evict them, if the pass used none of them. `lastUse` are
 * the times of their last uses, which the store knows.
 */
function order(name: EvictionPolicyName, residency: Residency, lastUse: readonly number[]): number[] {
  const { newestFirst } = EVICTION_POLICIES[name];
  const { before } = ranks(name, residency);
  const tie = newestFirst ? -1 : 1;
  return [...residency.state.keys()]
    .filter((id) => residency.state[id] === 2)
    .sort((a, b) => before[b]! - before[a]! || tie * (lastUse[a]! - lastUse[b]!));
}

describe.each(NAMES)('%s', (name) => {
  it('gives every expert two finite numbers and leaves the residency unchanged', () => {
    fc.assert(
      fc.property(anyResidency, (residency) => {
        const given = structuredClone(residency);
        const { before, after, unneeded } = ranks(name, residency);
        expect(residency).toEqual(given);
        expect([before.length, after.length]).toEqual([residency.state.length, residency.state.length]);
        expect([...before, ...after, ...unneeded].every(Number.isFinite)).toBe(true);
      }),
    );
  });
});

const residency = residencyOf([
  { uses: 9, loadedAt: 2, useRate: 0.1 },
  { uses: 8, loadedAt: 1, useRate: 0.4 },
  { uses: 1, loadedAt: 3, useRate: 0.2 },
  { uses: 7, loadedAt: 9, useRate: 0.3 },
]);

it.each([
  ['lru', [0, 3, 2, 1]],
  ['fifo', [1, 0, 2, 3]],
  ['lfu', [2, 3, 1, 0]],
  ['expert-buffering', [3, 2, 0, 1]],
  ['farthest-next-use', [0, 2, 3, 1]],
] as const)('%s evicts in its order', (name, wanted) => {
  expect(order(name, residency, [1, 9, 8, 7])).toEqual(wanted);
});

it('an expert that the pass loads is the newest: fifo evicts it last, expert buffering first', () => {
  const absent = residencyOf([{ loadedAt: 5 }, { state: 0, loadedAt: 7 }]);
  expect(ranks('fifo', absent).after[1]).toBeLessThan(ranks('fifo', absent).after[0]!);
  expect(ranks('expert-buffering', absent).after[1]).toBeGreaterThan(
    ranks('expert-buffering', absent).after[0]!,
  );
});
