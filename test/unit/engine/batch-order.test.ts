import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { byArrival, byOverlap, type WaitingInput } from '../../../src/engine/batch-order.js';
import { newIn, union } from '../../../src/predictor/expert-set.js';

const EXPERTS = 48;

function setOf(experts: readonly number[]): Uint32Array {
  const set = new Uint32Array(Math.ceil(EXPERTS / 32));
  for (const expert of experts) set[expert >>> 5]! |= 1 << (expert & 31);
  return set;
}

function input(tokens: number, experts: number[] | null, more: Partial<WaitingInput> = {}): WaitingInput {
  return { tokens, routingK: 0, experts: experts && setOf(experts), passedOver: 0, ...more };
}

const MAX = 16;
const experts = fc.array(fc.nat(EXPERTS - 1), { minLength: 1, maxLength: 12 });
const named = fc
  .record({ tokens: fc.integer({ min: 1, max: MAX }), experts })
  .map((each) => input(each.tokens, each.experts));
const anyInput = fc
  .record({
    tokens: fc.integer({ min: 1, max: MAX }),
    experts: fc.option(experts, { freq: 5 }),
    routingK: fc.integer({ min: 0, max: 2 }),
    passedOver: fc.nat(9),
  })
  .map(({ tokens, experts: list, ...more }) => input(tokens, list, more));

/** Serves everything, as the batcher does; `arrivals[i]` come before batch i. The batches as inputs. */
function serve<T extends WaitingInput>(
  arrivals: readonly (readonly T[])[],
  maxPassedOver: number,
  choose = byOverlap,
): T[][] {
  let waiting: T[] = [];
  const batches: T[][] = [];
  for (let i = 0; i < arrivals.length || waiting.length > 0; i++) {
    waiting.push(...(arrivals[i] ?? []));
    if (waiting.length === 0) continue;
    const chosen = choose(waiting, { maxTokens: MAX, maxPassedOver });
    const left = waiting.slice(0, chosen.at(-1)).filter((_, at) => !chosen.includes(at));
    for (const each of left) if (each.routingK === waiting[0]!.routingK) each.passedOver += 1;
    batches.push(chosen.map((at) => waiting[at]!));
    waiting = waiting.filter((_, at) => !chosen.includes(at));
  }
  return batches;
}

const limits = { maxTokens: MAX, maxPassedOver: 8 };

describe('batches by arrival', () => {
  it('take the oldest until one does not fit', () => {
    const waiting = [input(6, [1]), input(5, [2]), input(6, [3]), input(1, [4])];
    expect(byArrival(waiting, limits)).toEqual([0, 1]);
    expect(byArrival([input(40, null), input(1, null)], limits)).toEqual([0]);
  });
});

describe('batches by overlap', () => {
  it('take the oldest, then whatever brings the fewest new experts a token', () => {
    const waiting = [
      input(4, [1, 2, 3]),
      input(4, [20, 21, 22]),
      input(4, [2, 3, 4]),
      input(4, [30, 31]),
      input(4, [3, 4, 5]),
    ];
    expect(byOverlap(waiting, { ...limits, maxTokens: 12 })).toEqual([0, 2, 4]);
    // Two new experts for two tokens are worse than three for six.
    const lengths = [input(4, [1]), input(2, [2, 3]), input(6, [4, 5, 6])];
    expect(byOverlap(lengths, { ...limits, maxTokens: 10 })).toEqual([0, 2]);
  });

  it('take an input that was passed over too often before any that suits better', () => {
    const late = input(4, [40, 41], { passedOver: 8 });
    expect(byOverlap([input(4, [1]), late, input(4, [1])], { ...limits, maxTokens: 8 })).toEqual([0, 1]);
    late.passedOver = 7;
    expect(byOverlap([input(4, [1]), late, input(4, [1])], { ...limits, maxTokens: 8 })).toEqual([0, 2]);
  });

  it('fill what is left with inputs that have no tables, in order of arrival', () => {
    const waiting = [input(4, [1]), input(5, null), input(3, [1]), input(5, null), input(2, null)];
    expect(byOverlap(waiting, limits)).toEqual([0, 1, 2]);
  });

  it('are those of arrival where there are no tables', () => {
    fc.assert(
      fc.property(fc.array(anyInput, { minLength: 1, maxLength: 20 }), (inputs) => {
        const waiting = inputs.map((each) => ({ ...each, experts: null }));
        expect(byOverlap(waiting, limits)).toEqual(byArrival(waiting, limits));
      }),
    );
  });

  it('hold the oldest, keep to the token budget and to one routing, and leave no room that an input with tables fits', () => {
    fc.assert(
      fc.property(fc.array(anyInput, { minLength: 1, maxLength: 20 }), (waiting) => {
        const before = structuredClone(waiting);
        const chosen = byOverlap(waiting, limits);
        expect(waiting).toEqual(before);
        expect(chosen[0]).toBe(0);
        expect(chosen).toEqual([...new Set(chosen)].sort((a, b) => a - b));
        const tokens = chosen.reduce((sum, i) => sum + waiting[i]!.tokens, 0);
        expect(tokens).toBeLessThanOrEqual(MAX);
        const { routingK } = waiting[0]!;
        expect(chosen.every((i) => waiting[i]!.routingK === routingK)).toBe(true);
        if (waiting[0]!.experts === null) return;
        waiting.forEach((each, i) => {
          if (each.routingK !== routingK || each.experts === null || chosen.includes(i)) return;
          expect(tokens + each.tokens).toBeGreaterThan(MAX);
        });
      }),
    );
  });

  it('add at each step an input that none which fits is better than, the oldest of equals', () => {
    fc.assert(
      fc.property(fc.array(named, { minLength: 2, maxLength: 8 }), (waiting) => {
        const never = { maxTokens: MAX, maxPassedOver: Number.POSITIVE_INFINITY };
        const expected = [0];
        let known = waiting[0]!.experts!;
        for (;;) {
          const tokens = expected.reduce((sum, i) => sum + waiting[i]!.tokens, 0);
          const best = waiting
            .map((each, i) => ({ i, each, cost: newIn(each.experts!, known) / each.tokens }))
            .filter(({ i, each }) => !expected.includes(i) && tokens + each.tokens <= MAX)
            .sort((a, b) => a.cost - b.cost || a.i - b.i)[0];
          if (best === undefined) break;
          expected.push(best.i);
          known = union(known, best.each.experts!);
        }
        expect(byOverlap(waiting, never)).toEqual(expected.sort((a, b) => a - b));
      }),
    );
  });

  it('are by arrival where all inputs are equal: ties never let a younger one by', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 30 }),
        fc.integer({ min: 1, max: MAX }),
        experts,
        (count, tokens, list) => {
          const waiting = Array.from({ length: count }, () => input(tokens, list));
          expect(byOverlap(waiting, limits)).toEqual(byArrival(waiting, limits));
        },
      ),
    );
  });

  it('serve every input once, within maxPassedOver + 2 · older tokens / budget + 2 batches, whatever arrives later', () => {
    const mixed = fc.array(
      fc.array(
        fc.oneof({ weight: 5, arbitrary: named }, { weight: 1, arbitrary: fc.constant(input(9, null)) }),
        { maxLength: 6 },
      ),
      {
        minLength: 1,
        maxLength: 30,
      },
    );
    fc.assert(
      fc.property(mixed, fc.nat(6), (lists, maxPassedOver) => {
        const arrivals = lists.map((list) => list.map((each) => ({ ...each, passedOver: 0 })));
        const batches = serve(arrivals, maxPassedOver);
        const servedAt = new Map(batches.flatMap((batch, at) => batch.map((each) => [each, at] as const)));
        const all = arrivals.flat();
        expect(servedAt.size).toBe(all.length);
        expect(batches.flat()).toHaveLength(all.length);
        let bornAt = 0;
        const done = new Set<WaitingInput>();
        const waiting: WaitingInput[] = [];
        for (let turn = 0; turn < arrivals.length; turn++) {
          for (const each of arrivals[turn]!) {
            const older = waiting
              .filter((other) => !done.has(other))
              .reduce((sum, { tokens }) => sum + tokens, 0);
            const waited = servedAt.get(each)! - bornAt + 1;
            expect(waited).toBeLessThanOrEqual(maxPassedOver + (2 * older) / MAX + 2);
            waiting.push(each);
          }
          // A turn makes a batch when something waits.
          if (waiting.some((each) => !done.has(each))) for (const each of batches[bornAt++]!) done.add(each);
        }
      }),
      { numRuns: 300 },
    );
  });

  it('with several routings no input waits for more batches than there are older ones', () => {
    fc.assert(
      fc.property(fc.array(anyInput, { minLength: 1, maxLength: 25 }), fc.nat(6), (inputs, maxPassedOver) => {
        const waiting = inputs.map((each) => ({ ...each, passedOver: 0 }));
        const batches = serve([waiting], maxPassedOver);
        waiting.forEach((each, older) => {
          expect(batches.findIndex((batch) => batch.includes(each))).toBeLessThanOrEqual(older);
        });
      }),
    );
  });

  it('need fewer experts than those of arrival where two kinds of input take turns', () => {
    const kinds = [
      [0, 1, 2, 3],
      [40, 41, 42, 43],
    ];
    const fresh = () => Array.from({ length: 16 }, (_, i) => input(4, kinds[i % 2]!));
    const distinct = (batches: WaitingInput[][]) =>
      batches.reduce(
        (sum, batch) => sum + newIn(batch.map((each) => each.experts!).reduce(union), setOf([])),
        0,
      );
    expect([distinct(serve([fresh()], 8)), distinct(serve([fresh()], 8, byArrival))]).toEqual([16, 32]);
  });
});
