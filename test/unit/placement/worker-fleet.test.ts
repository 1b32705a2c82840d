// Several simulated workers, against what can be counted by hand and against a single store.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type ReplayBatch, type ReplayRule, replay, simulated } from '../../../src/evaluation/replay.js';
import { StoreSimulation } from '../../../src/evaluation/store-simulation.js';
import { EVICTION_POLICIES } from '../../../src/inference/eviction/index.js';
import type { SimulatedRequest } from '../../../src/placement/simulated-worker.js';
import { type FleetOptions, runFleet } from '../../../src/placement/worker-fleet.js';

const EXPERTS = 4;
const LRU: ReplayRule = { policy: EVICTION_POLICIES.lru, lookahead: null };

function request(ids: readonly number[]): SimulatedRequest {
  const need = Float64Array.from({ length: EXPERTS }, (_, id) => (ids.includes(id) ? 1 : 0));
  const visit = { firstId: 0, need: Float32Array.from(need) };
  const batch: ReplayBatch = {
    passes: [{ visits: [ids], own: [visit], behind: [] }],
    foreseen: { encoder: [visit], decoder: [] },
  };
  return { batch, tokens: 1, need };
}

const fleet = (changes: Partial<FleetOptions>): FleetOptions => ({
  experts: EXPERTS,
  slots: 2,
  rule: LRU,
  publishEvery: 1,
  loadMs: 10,
  tokenMs: 1,
  workers: 2,
  clients: 2,
  choice: 'expert-aware',
  loadFactor: 1.25,
  loadWeight: 0,
  ...changes,
});

const [A, B] = [request([0, 1]), request([2, 3])];
const anyRequests = fc.array(fc.subarray([0, 1, 2, 3], { minLength: 1 }).map(request), {
  minLength: 1,
  maxLength: 20,
});

describe('a fleet', () => {
  const pairs = [A, A, B, B, A, A, B, B];

  it('goes round robin whatever the requests are', () => {
    const report = runFleet(pairs, fleet({ choice: 'round-robin' }));
    // Each worker gets A B A B, and has slots for one of them.
    expect(report).toMatchObject({ requests: 8, loads: 16, given: [4, 4], byExperts: 0 });
    // Two loads and a token each, four in a row.
    expect([report.endMs, report.meanMs]).toEqual([84, 21]);
  });

  it('knowing experts, keeps each kind where it was', () => {
    const mixed = [A, B, B, A, A, B, B, A];
    expect(runFleet(mixed, fleet({ clients: 1, choice: 'round-robin' })).loads).toBe(16);
    const aware = runFleet(mixed, fleet({ clients: 1 }));
    expect(aware).toMatchObject({ loads: 4, given: [4, 4], byExperts: 6 });
    expect(aware.endMs).toBe(21 + 21 + 6);
  });

  it('does not let one worker have everything', () => {
    // The first ten leave A on one worker and B on the other.
    const requests = [A, B, A, B, A, B, A, B, A, B, ...new Array<SimulatedRequest>(30).fill(A)];
    expect(runFleet(requests, fleet({ clients: 10, loadFactor: 100 }))).toMatchObject({
      given: [35, 5],
      loads: 4,
    });
    // With ten at once a worker holds 1.25 · 5 + 1 at most.
    const bounded = runFleet(requests, fleet({ clients: 10 }));
    expect(bounded.given[1]).toBeGreaterThan(5);
    expect(bounded.endMs).toBeLessThan(runFleet(requests, fleet({ clients: 10, loadFactor: 100 })).endMs);
  });

  it('with one worker is the replay of its store, whoever chooses', () => {
    fc.assert(
      fc.property(
        anyRequests,
        fc.constantFrom('round-robin', 'least-loaded', 'expert-aware'),
        (all, choice) => {
          const store = new StoreSimulation(EXPERTS, 2);
          replay(
            all.map(({ batch }) => batch),
            simulated(store),
            LRU,
          );
          expect(runFleet(all, fleet({ workers: 1, choice })).loads).toBe(store.loads);
        },
      ),
    );
  });

  it('ends every request once, and no later than one worker would alone', () => {
    const any = fc.record({
      all: anyRequests,
      workers: fc.integer({ min: 1, max: 4 }),
      clients: fc.integer({ min: 1, max: 12 }),
      publishEvery: fc.integer({ min: 1, max: 4 }),
      choice: fc.constantFrom('round-robin', 'least-loaded', 'expert-aware'),
    });
    fc.assert(
      fc.property(any, ({ all, ...rest }) => {
        const report = runFleet(all, fleet(rest));
        expect(report.given.reduce((sum, own) => sum + own, 0)).toBe(all.length);
        expect(report.endMs).toBeLessThanOrEqual(report.loads * 10 + all.length);
        expect(report.meanMs).toBeLessThanOrEqual(report.p99Ms);
      }),
    );
  });
});
