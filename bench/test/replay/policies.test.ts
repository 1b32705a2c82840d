// Policies over traces small enough to work out by hand, beside Belady's rule.
import { describe, expect, it } from 'vitest';
import { compare, type PolicyCounts } from '../../src/replay/compare.js';
import type { Phase, RoutingTrace } from '../../src/replay/routing-trace.js';
import { singles, traceOf } from './small-traces.js';

function run(trace: RoutingTrace, slots: number, lookaheads = [0, 2]): PolicyCounts[] {
  const share = slots / (trace.layers.length * trace.experts);
  return compare(trace, [share], lookaheads).caches[0]!.policies;
}

const movedBy = ({ prefill, decode }: PolicyCounts) => prefill.bytes + decode.bytes;

function moved(trace: RoutingTrace, slots: number, policy: string, lookahead: number | null = null): number {
  const lookaheads = lookahead === null ? [] : [lookahead];
  return movedBy(run(trace, slots, lookaheads).find((own) => own.policy === policy)!);
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
    ['expert-buffering', 5, 3],
    ['belady', 4, 3],
  ])('%s moves %i and %i experts', (policy, first, second) => {
    expect(moved(cycle, 2, policy)).toBe(first);
    expect(moved(favourite, 2, policy)).toBe(second);
  });

  it('expert buffering spares what the running pass has used', () => {
    const steps = traceOf(
      [
        [[0], [0]],
        [[1], [1]],
        [[1], [0]],
      ],
      2,
    );
    expect(moved(steps, 2, 'expert-buffering')).toBe(5);
  });

  it('none keeps layers of a walk through all experts, where lru finds nothing', () => {
    const walk = traceOf(
      Array.from({ length: 8 }, () => [[0], [0], [0], [0]]),
      1,
    );
    expect(moved(walk, 3, 'lru')).toBe(32);
    // In the first round it does not know the walk.
    expect(moved(walk, 3, 'none')).toBeLessThanOrEqual(1 + moved(walk, 3, 'belady'));
  });

  it('true tables load what Belady loads where they see far enough', () => {
    expect(moved(cycle, 2, 'true-tables', 2)).toBe(4);
  });

  it('a layer that needs more experts than there are slots runs in turns', () => {
    const wide = traceOf([[[0, 1, 2]], [[0, 1, 2]]], 3);
    // 0 is kept, 1 and 2 take turns, then 0 is there again.
    expect(moved(wide, 2, 'belady')).toBe(4);
  });

  it('a prefetch counts for the phase that uses it', () => {
    const trace = singles([0, 1], 3);
    const phases: Phase[] = ['decode', 'prefill'];
    const mixed: RoutingTrace = {
      ...trace,
      batches: trace.batches.map(({ passes }, i) => ({ passes: [{ ...passes[0]!, phase: phases[i]! }] })),
    };
    const ahead = run(mixed, 2, [1]).find(({ policy }) => policy === 'true-tables')!;
    expect([ahead.decode.loads, ahead.prefill.loads]).toEqual([1, 1]);
  });
});
