// Caches of several devices, over traces small enough to work out by hand.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { deviceMisses, PLACED_BY } from '../../src/placement/device-misses.js';
import { compare } from '../../src/replay/compare.js';
import { singles, traceOf } from '../replay/small-traces.js';

/** Nothing is learned: the first half is there for placements that need a history. */
const twice = (ids: readonly number[]) => [...ids, ...ids];

describe('misses of devices', () => {
  const options = { devices: 2, slots: 2, policy: 'lru' as const, learn: 0.5 };

  it('are of caches that hold the experts of their device alone', () => {
    // By index 0 and 1 take turns on the first device, in its one slot; in turn each device keeps one of them.
    const trace = singles(twice([0, 1, 0, 1]), 4);
    expect(deviceMisses(trace, 'index', options)).toEqual({
      placedBy: 'index',
      needs: 4,
      loads: 4,
      mostLoads: 4,
      worstDevice: 1,
      busiestLoads: 4,
    });
    expect(deviceMisses(trace, 'round-robin', options)).toMatchObject({
      loads: 2,
      mostLoads: 1,
      worstDevice: 0.5,
    });
    // History parts 0 and 1.
    expect(deviceMisses(trace, 'greedy', options)).toMatchObject({ loads: 2, mostLoads: 1 });
  });

  it('count a pass by the device that loads most', () => {
    const step = [[0, 1], [0]];
    const trace = traceOf([step, step], 4);
    // 0 and 1 of layer 0 and 0 of layer 1 lie on the first device by index.
    expect(deviceMisses(trace, 'index', { ...options, slots: 8 })).toMatchObject({
      loads: 3,
      busiestLoads: 3,
    });
    expect(deviceMisses(trace, 'round-robin', { ...options, slots: 8 })).toMatchObject({
      loads: 3,
      busiestLoads: 2,
    });
  });

  it('are those of one cache where there is one device, and never below Belady', () => {
    const steps = fc.array(
      fc.array(
        fc.uniqueArray(fc.nat(3), { minLength: 1, maxLength: 3 }).map((ids) => ids.sort((a, b) => a - b)),
        { minLength: 2, maxLength: 2 },
      ),
      { minLength: 2, maxLength: 8 },
    );
    fc.assert(
      fc.property(steps, fc.integer({ min: 2, max: 8 }), (all, slots) => {
        const trace = traceOf(all, 4);
        const learn = 0.5;
        const rest = { ...trace, batches: trace.batches.slice(Math.ceil(learn * all.length)) };
        const [lruOfAll] = compare(rest, [slots / 8], []).caches[0]!.policies.filter(
          (own) => own.policy === 'lru',
        );
        const alone = deviceMisses(trace, 'index', { devices: 1, slots, policy: 'lru', learn });
        expect(alone.loads).toBe(lruOfAll!.prefill.loads + lruOfAll!.decode.loads);
        expect(alone.busiestLoads).toBe(alone.loads);
        for (const placedBy of PLACED_BY) {
          const of = (policy: 'lru' | 'belady') =>
            deviceMisses(trace, placedBy, { devices: 2, slots, policy, learn });
          const [lru, belady] = [of('lru'), of('belady')];
          expect(belady.loads).toBeLessThanOrEqual(lru.loads);
          expect(lru.needs).toBe(alone.needs);
          expect(lru.busiestLoads).toBeGreaterThanOrEqual(lru.loads / 2);
          expect(lru.busiestLoads).toBeLessThanOrEqual(lru.loads);
        }
      }),
      { numRuns: 40 },
    );
  });
});
