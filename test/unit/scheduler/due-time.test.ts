// The order of waiting requests: what short ones gain, and that nobody waits beyond the bound.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Batcher } from '../../../src/scheduler/batch.js';
import { dueTime } from '../../../src/scheduler/due-time.js';

interface Came {
  atMs: number;
  seconds: number;
  owner: string;
  leftMs: number;
}

/** Of each request, when it began. A request takes what was quoted, and one runs at a time. */
function begins(came: readonly Came[], due: (each: Came) => number): number[] {
  const batcher = new Batcher({ maxBatchTokens: 1, waitMs: 0 });
  const work = { kind: 'generate', maxTokens: 1, logprobs: null, choices: [null] } as const;
  const begun: number[] = [];
  let now = 0;
  let next = 0;
  for (let done = 0; done < came.length; done += 1) {
    if (batcher.waiting === 0) now = Math.max(now, came[next]!.atMs);
    for (; next < came.length && came[next]!.atMs <= now; next += 1) {
      const { owner } = came[next]!;
      const one = { item: next, job: next, jobItems: 1, routingK: 0, tokens: new Int32Array(1), work };
      batcher.add([{ ...one, owner, dueMs: due(came[next]!) }], now);
    }
    const { job } = batcher.take(now).batch.requests[0]!;
    begun[job] = now;
    now += came[job]!.seconds * 1000;
  }
  return begun;
}

const byDue = ({ atMs, seconds, leftMs }: Came) => dueTime(atMs, seconds, leftMs);
const byArrival = ({ atMs }: Came) => atMs;
const mixed = (owners: string[], leftMs: fc.Arbitrary<number>) =>
  fc
    .array(
      fc.record({
        atMs: fc.integer({ min: 0, max: 60_000 }),
        seconds: fc.oneof(fc.constant(0.2), fc.integer({ min: 1, max: 40 })),
        owner: fc.constantFrom(...owners),
        leftMs,
      }),
      { minLength: 1, maxLength: 60 },
    )
    .map((all) => all.sort((a, b) => a.atMs - b.atMs));

describe('a key', () => {
  it('has no request passed over by one that came after it was due', () => {
    fc.assert(
      fc.property(mixed(['a'], fc.integer({ min: 0, max: 600_000 })), (came) => {
        const begun = begins(came, byDue);
        for (const [i, first] of came.entries()) {
          const bound = Math.min(10_000 * first.seconds, first.leftMs / 2);
          for (const [j, later] of came.entries())
            if (j > i && begun[j]! < begun[i]!) expect(later.atMs - first.atMs).toBeLessThanOrEqual(bound);
        }
      }),
    );
  });

  it('waits on average no longer than in the order of arrival', () => {
    const waits = (came: readonly Came[], due: (each: Came) => number) =>
      begins(came, due).reduce((sum, begin, i) => sum + begin - came[i]!.atMs, 0);
    let gained = 0;
    fc.assert(
      fc.property(mixed(['a'], fc.constant(600_000)), (came) => {
        const [ordered, arrived] = [waits(came, byDue), waits(came, byArrival)];
        expect(ordered).toBeLessThanOrEqual(arrived + 1e-6);
        if (ordered < arrived) gained += 1;
      }),
    );
    expect(gained).toBeGreaterThan(20);
  });
});

it('leaves keys their turns, whatever is due', () => {
  fc.assert(
    fc.property(mixed(['a', 'b', 'c'], fc.constant(600_000)), (came) => {
      const begun = begins(came, byDue);
      const order = came.map((_, i) => i).sort((a, b) => begun[a]! - begun[b]!);
      for (const [i, { owner, atMs }] of came.entries()) {
        const mine = order.filter(
          (j) => came[j]!.owner === owner && begun[j]! >= atMs && begun[j]! < begun[i]!,
        );
        const others = order.filter(
          (j) => came[j]!.owner !== owner && begun[j]! > atMs && begun[j]! < begun[i]!,
        );
        // Between two turns of a key, each of the two others has one.
        expect(others.length).toBeLessThanOrEqual(2 * (mine.length + 1));
      }
    }),
  );
});

it('is due in half the time that is left at the latest, and at once if none is left', () => {
  expect(dueTime(1_000, 3, Number.POSITIVE_INFINITY)).toBe(31_000);
  expect(dueTime(1_000, 3, 40_000)).toBe(21_000);
  expect(dueTime(1_000, 3, -5)).toBe(1_000);
});
