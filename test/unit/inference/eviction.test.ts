import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { EvictionPolicyName } from '../../../src/engine/messages.js';
import { EVICTION_POLICIES } from '../../../src/inference/eviction/index.js';
import type { Residency } from '../../../src/native/addon-types.js';
import { anyResidency, candidates, residencyOf } from './residency-fixture.js';

const KEYS: Record<EvictionPolicyName, (residency: Residency, id: number) => number> = {
  lru: (residency, id) => residency.lastUse[id]!,
  fifo: (residency, id) => residency.loadedAt[id]!,
  lfu: (residency, id) => residency.uses[id]!,
  lifo: (residency, id) => -residency.loadedAt[id]!,
};

describe.each(Object.keys(KEYS) as EvictionPolicyName[])('%s', (name) => {
  const policy = EVICTION_POLICIES[name];

  it('ranks exactly the resident, unpinned experts', () => {
    fc.assert(
      fc.property(anyResidency, (residency) => {
        expect([...policy(residency)].sort((a, b) => a - b)).toEqual(candidates(residency));
      }),
    );
  });

  it('follows its key, ties by id', () => {
    fc.assert(
      fc.property(anyResidency, (residency) => {
        const key = (id: number) => KEYS[name](residency, id);
        const wanted = candidates(residency).sort((a, b) => key(a) - key(b) || a - b);
        expect([...policy(residency)]).toEqual(wanted);
      }),
    );
  });

  it('changes nothing in the residency', () => {
    fc.assert(
      fc.property(anyResidency, (residency) => {
        const before = structuredClone(residency);
        policy(residency);
        expect(residency).toEqual(before);
      }),
      { numRuns: 20 },
    );
  });
});

it('each policy has its own first victim', () => {
  const residency = residencyOf([
    { uses: 9, lastUse: 1, loadedAt: 2 },
    { uses: 8, lastUse: 9, loadedAt: 1 },
    { uses: 1, lastUse: 8, loadedAt: 3 },
    { uses: 7, lastUse: 7, loadedAt: 9 },
  ]);
  const first = Object.entries(EVICTION_POLICIES).map(([name, policy]) => [name, policy(residency)[0]]);
  expect(Object.fromEntries(first)).toEqual({ lru: 0, fifo: 1, lfu: 2, lifo: 3 });
});
