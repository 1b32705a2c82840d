// No policy moves fewer bytes than the bound of its own run: the same needs, from what its device held at their begin.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { EvictionPolicyName } from '../../../dist/native/addon-types.js';
import { tabled } from '../../src/replay/policies.js';
import { type ReplayPass, replay } from '../../src/replay/replay.js';
import type { RecordedPass, RoutingTrace } from '../../src/replay/routing-trace.js';
import { WatchedStore } from '../../src/replay/watched-store.js';
import { heldBy, leastBytesOf } from '../../src/systems/least-bytes.js';
import { traceOf } from './small-traces.js';

const LAYERS = 2;
const EXPERTS = 4;
/** Experts of the second layer are larger. */
const MIXED = [2, 5];
const EQUAL = [3, 3];

interface Run {
  name: string;
  policy: EvictionPolicyName;
  lookahead: number | null;
  known: boolean;
}

const RUNS: readonly Run[] = [
  ...(['lru', 'fifo', 'lfu', 'expert-buffering', 'farthest-next-use'] as const).map((name) => ({
    name,
    policy: name,
    lookahead: null,
    known: false,
  })),
  ...[0, 1, 4].map((lookahead) => ({
    name: `true tables, look-ahead ${lookahead}`,
    policy: 'farthest-next-use' as const,
    lookahead,
    known: true,
  })),
];

/** Replays warm-up and measured steps, and counts the latter alone, as a measurement does. */
function measured(
  { policy, lookahead, known }: Run,
  trace: RoutingTrace,
  warm: number,
  slots: number,
  blockBytes: number[],
) {
  const experts = LAYERS * EXPERTS;
  let [bytes, steps] = [0, 0];
  const store = new WatchedStore<RecordedPass & ReplayPass>(
    { experts, layerExperts: EXPERTS, slots, policy },
    {
      load: (_, id) => {
        if (steps > warm) bytes += blockBytes[Math.floor(id / EXPERTS)]!;
      },
    },
  );
  let begin: number[] = [];
  const watched = {
    run: (...[pass, needs]: Parameters<typeof store.run>) => {
      if (steps === warm) begin = heldBy(store.residency().state);
      steps += 1;
      store.run(pass, needs);
    },
  };
  replay(tabled(trace, known), watched, lookahead);
  const counted = trace.batches.slice(warm).flatMap(({ passes }) => passes);
  const visits = counted.flatMap((pass) => pass.visits);
  return {
    bytes,
    least: leastBytesOf(
      { begin, visits },
      { experts, layerExperts: blockBytes.map(() => EXPERTS), blockBytes },
      slots,
    ),
  };
}

const ids = fc
  .uniqueArray(fc.nat(EXPERTS - 1), { minLength: 1, maxLength: EXPERTS })
  .map((list) => list.sort((a, b) => a - b));
const steps = fc.array(fc.array(ids, { minLength: LAYERS, maxLength: LAYERS }), {
  minLength: 2,
  maxLength: 14,
});
const slots = fc.integer({ min: 1, max: LAYERS * EXPERTS });
const blocks = fc.constantFrom(EQUAL, MIXED);

describe('the least bytes', () => {
  it.each(RUNS)('$name moves no fewer', (run) => {
    fc.assert(
      fc.property(steps, slots, fc.nat(6), blocks, (all, size, before, blockBytes) => {
        const warm = Math.min(before, all.length - 1);
        const { bytes, least } = measured(run, traceOf(all, EXPERTS), warm, size, blockBytes);
        expect(bytes).toBeGreaterThanOrEqual(least);
      }),
      { numRuns: 60 },
    );
  });
});
