// Policies over traces small enough to work out by hand, and what holds for any trace.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type CompareOptions, compare, type PolicyCounts } from '../../src/replay/compare.js';
import { POLICIES, type PolicyName } from '../../src/replay/policies.js';
import { PHASES, type Phase, type RoutingTrace } from '../../src/replay/routing-trace.js';
import { singles, traceOf } from './small-traces.js';

async function run(
  trace: RoutingTrace,
  slots: number,
  options: Partial<CompareOptions> = {},
): Promise<PolicyCounts[]> {
  const { caches } = await compare(trace, {
    caches: [{ cache: String(slots), slots }],
    lookaheads: [0, 2],
    policies: POLICIES,
    scope: 'shared',
    learn: 0.25,
    ...options,
  });
  return caches[0]!.policies;
}

async function moved(
  trace: RoutingTrace,
  slots: number,
  policy: PolicyName,
  options: Partial<CompareOptions> = {},
): Promise<number> {
  return (await run(trace, slots, { policies: [policy], ...options })).at(-1)!.all.bytes;
}

describe('by hand', () => {
  const cycle = singles([0, 1, 2, 0, 1, 2], 4);
  const favourite = singles([0, 0, 1, 2, 0], 4);

  it.each([
    // A cycle over more experts than slots: what came first goes just before it is needed.
    ['fifo', 6, 4],
    ['lru', 6, 4],
    // 0 was needed twice when 2 comes, 1 once.
    ['lfu', 6, 3],
    // 0 stays, the others take turns.
    ['expert-buffering', 5, 3],
    ['belady', 4, 3],
  ] as const)('%s moves %i and %i experts', async (policy, first, second) => {
    expect(await moved(cycle, 2, policy)).toBe(first);
    expect(await moved(favourite, 2, policy)).toBe(second);
  });

  it('expert buffering spares what the running pass has used', async () => {
    const steps = traceOf(
      [
        [[0], [0]],
        [[1], [1]],
        [[1], [0]],
      ],
      2,
    );
    expect(await moved(steps, 2, 'expert-buffering')).toBe(5);
  });

  it('none keeps layers of a walk through all experts, where lru finds nothing', async () => {
    const walk = traceOf(
      Array.from({ length: 8 }, () => [[0], [0], [0], [0]]),
      1,
    );
    expect(await moved(walk, 3, 'lru')).toBe(32);
    // In the first round it does not know the walk.
    expect(await moved(walk, 3, 'none')).toBeLessThanOrEqual(1 + (await moved(walk, 3, 'belady')));
  });

  it('none follows a change of what is needed, lfu does not', async () => {
    const once = Array.from({ length: 20 }, () => [0, 1]).flat();
    const then = Array.from({ length: 6 }, () => [2, 3]).flat();
    const changed = singles([...once, ...then], 4);
    expect(await moved(changed, 2, 'none')).toBeLessThan(await moved(changed, 2, 'lfu'));
  });

  it('static-hot learns from the first part, then keeps what was hot there', async () => {
    // 0 is pinned after three steps; 1 and 2 take turns in the slot that is left.
    expect(await moved(singles([0, 0, 1, 2, 0, 1], 4), 2, 'static-hot', { learn: 0.5 })).toBe(4);
    // What is hot later is not known.
    expect(await moved(singles([3, 3, 3, 2, 0, 2, 0], 4), 2, 'static-hot', { learn: 0.4 })).toBe(5);
  });

  it('true tables load ahead of a need, shuffled ones what nobody needs', async () => {
    const [right] = await run(cycle, 2, { policies: ['true-tables'], lookaheads: [2] });
    expect([right!.all.hits, right!.all.misses, right!.all.prefetches]).toEqual([6, 0, 4]);
    expect(await moved(cycle, 2, 'true-tables-on-demand', { lookaheads: [2] })).toBe(4);
    const [wrong] = await run(cycle, 2, { policies: ['shuffled-tables'], lookaheads: [0] });
    expect(wrong!.all.bytes).toBeGreaterThan(right!.all.bytes);
    expect(wrong!.all.misses + wrong!.all.prefetches).toBe(wrong!.all.bytes);
  });

  it('a layer that needs more experts than there are slots runs in turns', async () => {
    const wide = traceOf([[[0, 1, 2]], [[0, 1, 2]]], 3);
    for (const { all } of await run(wide, 1)) expect(all.hits + all.misses).toBe(6);
    // 0 is kept, 1 and 2 take turns, then 0 is there again.
    expect(await moved(wide, 2, 'belady')).toBe(4);
  });

  it('a cache for each layer keeps one layer from evicting another', async () => {
    const steps = traceOf(
      [
        [[0], [0, 1, 2]],
        [[0], [0, 1, 2]],
      ],
      3,
    );
    // In layer 1 the experts take turns, the last one is there again; the expert of layer 0 stays in its own slot.
    const [shared] = await run(steps, 2, { policies: ['lru'] });
    const [own] = await run(steps, 2, { policies: ['lru'], scope: 'per-layer' });
    expect(shared!.all.misses).toBe(7);
    expect(own!.all.misses).toBe(6);
  });

  it('a prefetch counts for the phase that uses it', async () => {
    const trace = singles([0, 1], 2);
    const phases: Phase[] = ['decode', 'prefill'];
    const mixed: RoutingTrace = {
      ...trace,
      batches: trace.batches.map(({ passes }, i) => ({ passes: [{ ...passes[0]!, phase: phases[i]! }] })),
    };
    const wide = { ...mixed, experts: 3, layers: ['0'] };
    const [ahead] = await run(wide, 2, { policies: ['true-tables'], lookaheads: [1] });
    expect([ahead!.decode.prefetches, ahead!.prefill.prefetches]).toEqual([1, 1]);
  });
});

describe('for any trace', () => {
  const LAYERS = 2;
  const EXPERTS = 4;
  const ids = (most: number) =>
    fc
      .uniqueArray(fc.nat(EXPERTS - 1), { minLength: 1, maxLength: most })
      .map((list) => list.sort((a, b) => a - b));
  const steps = (most: number) =>
    fc.array(fc.array(ids(most), { minLength: LAYERS, maxLength: LAYERS }), { minLength: 1, maxLength: 12 });
  const slots = fc.integer({ min: 1, max: LAYERS * EXPERTS });

  it('nothing moves less than Belady, and every need is a hit or a miss', async () => {
    await fc.assert(
      fc.asyncProperty(steps(3), slots, async (all, size) => {
        const trace = traceOf(all, EXPERTS);
        const needs = all.flat(2).length;
        const policies = await run(trace, size);
        const least = policies.at(-1)!;
        expect([least.policy, least.lookahead]).toEqual(['belady', null]);
        for (const run of policies) {
          expect(run.all.bytes).toBeGreaterThanOrEqual(least.all.bytes);
          expect(run.all.hits + run.all.misses).toBe(needs);
          expect(run.all.hits).toBeGreaterThanOrEqual(0);
          expect(run.all.misses + run.all.prefetches).toBe(run.all.bytes);
          for (const key of ['needs', 'hits', 'misses', 'prefetches', 'bytes'] as const) {
            expect(PHASES.reduce((sum, phase) => sum + run[phase][key], 0)).toBe(run.all[key]);
          }
        }
      }),
      // Where the order in which a layer's experts come decides who stays.
      {
        numRuns: 60,
        examples: [
          [
            [
              [[2], [0]],
              [[0, 1], [3]],
              [[0], [2]],
              [[2], [2]],
              [
                [0, 1],
                [0, 1, 3],
              ],
              [[0], [0, 1, 2]],
            ],
            4,
          ],
        ],
      },
    );
  });

  it('true tables of the whole trace move what Belady moves when nothing is prefetched', async () => {
    const single = fc.array(fc.nat(EXPERTS - 1), { minLength: 1, maxLength: 14 });
    await fc.assert(
      fc.asyncProperty(single, fc.integer({ min: 1, max: EXPERTS }), async (all, size) => {
        const trace = singles(all, EXPERTS);
        const options = { lookaheads: [all.length] };
        const [ours, , belady] = await run(trace, size, {
          policies: ['true-tables-on-demand', 'belady'],
          ...options,
        });
        expect(ours!.all.bytes).toBe(belady!.all.bytes);
      }),
      { numRuns: 200 },
    );
  });

  it('a cache of all experts loads each once, whatever the policy', async () => {
    await fc.assert(
      fc.asyncProperty(steps(3), async (all) => {
        const trace = traceOf(all, EXPERTS);
        const distinct = new Set(
          trace.batches.flatMap(({ passes }) => passes.flatMap(({ visits }) => visits.flat())),
        );
        for (const { all: counts } of await run(trace, LAYERS * EXPERTS)) {
          expect(counts.bytes).toBe(distinct.size);
        }
      }),
      { numRuns: 30 },
    );
  });

  it('a model of one layer has the same cache per layer and shared', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(ids(3), { minLength: 1, maxLength: 10 }), async (all) => {
        const trace = traceOf(
          all.map((step) => [step]),
          EXPERTS,
        );
        expect(await run(trace, 2, { scope: 'per-layer' })).toEqual(await run(trace, 2));
      }),
      { numRuns: 30 },
    );
  });
});
