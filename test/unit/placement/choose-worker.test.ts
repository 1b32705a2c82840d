import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type ChoiceOptions, chooseWorker, type KnownWorker } from '../../../src/placement/choose-worker.js';
import { requestNeed } from '../../../src/placement/request-need.js';
import { isResident } from '../../../src/placement/worker-summary.js';

const NOW = 1_000_000;
const EXPERTS = 8;

const options = (changes: Partial<ChoiceOptions> = {}): ChoiceOptions => ({
  nowMs: NOW,
  maxAgeMs: 5000,
  loadFactor: 1.25,
  loadWeight: 0,
  bytesOf: () => 100,
  turn: 0,
  ...changes,
});

interface Told {
  holds?: number[];
  load?: number;
  capacity?: number;
  ageMs?: number;
  experts?: number;
}

function told({ holds = [], load = 0, capacity = 100, ageMs = 0, experts = EXPERTS }: Told): KnownWorker {
  const resident = new Uint8Array(Math.ceil(experts / 8));
  for (const id of holds) resident[id >> 3]! |= 1 << (id & 7);
  return { summary: { worker: '', experts, resident, load, capacity, publishedMs: NOW - ageMs } };
}

const needOf = (chances: Record<number, number>) =>
  Float64Array.from({ length: EXPERTS }, (_, id) => chances[id] ?? 0);
const NEED = needOf({ 1: 1, 2: 1, 3: 0.5 });

describe('the choice of a worker', () => {
  it('falls on whose missing experts have the fewest bytes', () => {
    const workers = [told({ holds: [1] }), told({ holds: [1, 2] }), told({ holds: [3, 4, 5] })];
    expect(chooseWorker(NEED, workers, options())).toEqual({ worker: 1, missingBytes: 50, by: 'experts' });
    // Where expert 3 is large, a half chance of it outweighs two small ones.
    const bytesOf = (id: number) => (id === 3 ? 1000 : 100);
    expect(chooseWorker(NEED, workers, options({ bytesOf }))).toMatchObject({ worker: 2, missingBytes: 200 });
  });

  it('goes on to the next best where the best has more than its part', () => {
    const workers = (load: number) => [
      told({ holds: [1, 2, 3], load }),
      told({ holds: [1], load: 2 }),
      told({ load: 2 }),
    ];
    // A worker may hold 1.25 · 9 / 3 + 1 = 4.75 of nine.
    expect(chooseWorker(NEED, workers(4), options())).toMatchObject({ worker: 1 });
    expect(chooseWorker(NEED, workers(3), options())).toMatchObject({ worker: 0 });
    expect(chooseWorker(NEED, workers(4), options({ loadFactor: 2 }))).toMatchObject({ worker: 0 });
  });

  it('goes to a shorter queue where few bytes are at stake', () => {
    // NEED has 250 bytes: a request in front counts as 25 with a weight of a tenth.
    const workers = (load: number) => [told({ holds: [1, 2, 3], load }), told({ holds: [1, 2] })];
    const by = (loadWeight: number) => options({ loadFactor: 4, loadWeight });
    expect(chooseWorker(NEED, workers(1), by(0.1))).toEqual({ worker: 0, missingBytes: 0, by: 'experts' });
    expect(chooseWorker(NEED, workers(3), by(0.1))).toEqual({ worker: 1, missingBytes: 50, by: 'experts' });
    expect(chooseWorker(NEED, workers(3), by(0))).toMatchObject({ worker: 0 });
  });

  it('among equals falls on the least loaded, then goes round', () => {
    const workers = [told({ load: 1 }), told({ load: 0 }), told({ load: 0 }), told({ load: 1 })];
    const chosen = [0, 1, 2, 3, 4].map((turn) =>
      chooseWorker(NEED, workers, options({ turn, loadFactor: 2 })),
    );
    expect(chosen.map((choice) => choice!.worker)).toEqual([1, 1, 2, 1, 1]);
    expect(chosen[0]!.by).toBe('load');
    const idle = workers.map(() => told({}));
    expect([0, 1, 2, 3, 4].map((turn) => chooseWorker(NEED, idle, options({ turn }))!.worker)).toEqual([
      0, 1, 2, 3, 0,
    ]);
    expect(chooseWorker(NEED, idle, options())!.by).toBe('turn');
  });

  it('without a table goes by load', () => {
    const workers = [told({ holds: [1, 2, 3], load: 1 }), told({})];
    expect(chooseWorker(null, workers, options())).toEqual({ worker: 1, missingBytes: null, by: 'load' });
  });

  it.each([
    ['never told', { summary: null }],
    ['stale', told({ holds: [1, 2, 3], ageMs: 5001 })],
    ['of a clock far ahead', told({ holds: [1, 2, 3], ageMs: -5001 })],
  ])('takes a worker as unknown, without experts and as busy as the busiest: %s', (_, unknown) => {
    expect(chooseWorker(NEED, [unknown, told({ holds: [1], load: 1 })], options())!.worker).toBe(1);
    expect(chooseWorker(NEED, [unknown, told({ load: 1 }), told({})], options())!.worker).toBe(2);
  });

  it('believes nothing of the experts of another model', () => {
    const other = told({ holds: [1, 2, 3], experts: 64 });
    expect(chooseWorker(NEED, [other, told({ holds: [1] })], options())!.worker).toBe(1);
  });

  it('counts what was given since the summary', () => {
    const [first, second] = [told({}), told({})];
    const workers = [{ ...first, given: 1 }, second];
    expect(chooseWorker(NEED, workers, options())).toMatchObject({ worker: 1, by: 'load' });
  });

  it('skips full workers, and is nobody where all are full', () => {
    const full = told({ holds: [1, 2, 3], load: 2, capacity: 2 });
    expect(chooseWorker(NEED, [full, told({})], options())!.worker).toBe(1);
    expect(chooseWorker(NEED, [full, full], options())).toBeUndefined();
    expect(chooseWorker(NEED, [{ ...told({ capacity: 1 }), given: 1 }], options())).toBeUndefined();
    expect(chooseWorker(NEED, [], options())).toBeUndefined();
  });

  it('refuses a bound below the average', () => {
    expect(() => chooseWorker(NEED, [told({})], options({ loadFactor: 0.9 }))).toThrow(
      'Expected loadFactor to be at least 1, found 0.9',
    );
    expect(() => chooseWorker(NEED, [told({})], options({ loadFactor: Number.NaN }))).toThrow('found NaN');
  });
});

describe('any choice', () => {
  const anyWorker = fc.record({
    holds: fc.subarray([...Array(EXPERTS).keys()]),
    load: fc.nat({ max: 9 }),
    capacity: fc.integer({ min: 1, max: 10 }),
    ageMs: fc.constantFrom(0, 4000, 6000),
    given: fc.nat({ max: 3 }),
    silent: fc.boolean(),
  });
  const anyCase = fc.record({
    workers: fc.array(
      anyWorker.map(
        ({ given, silent, ...own }): KnownWorker => ({
          summary: silent ? null : told(own).summary,
          given,
        }),
      ),
      { minLength: 1, maxLength: 6 },
    ),
    need: fc.option(
      fc
        .array(fc.constantFrom(0, 0.25, 1), { minLength: EXPERTS, maxLength: EXPERTS })
        .map((chances) => Float64Array.from(chances)),
    ),
    loadFactor: fc.double({ min: 1, max: 4, noNaN: true }),
    // Powers of two: sums are exact.
    loadWeight: fc.constantFrom(0, 0.125, 0.5),
    turn: fc.nat(),
  });
  const fresh = ({ summary }: KnownWorker) =>
    summary !== null && NOW - summary.publishedMs <= 5000 ? summary : null;

  it('is within the bound, and nobody within it costs less, or as little with less load', () => {
    fc.assert(
      fc.property(anyCase, ({ workers, need, loadFactor, loadWeight, turn }) => {
        const needed = [...(need ?? [])].reduce((sum, chance) => sum + chance, 0);
        const busiest = Math.max(0, ...workers.map((worker) => fresh(worker)?.load ?? 0));
        const open = workers
          .map((worker, index) => {
            const summary = fresh(worker);
            const missing = [...(need ?? [])].reduce(
              (sum, chance, id) => sum + (summary !== null && isResident(summary, id) ? 0 : chance),
              0,
            );
            const load = (summary?.load ?? busiest) + worker.given!;
            return { index, cost: missing + loadWeight * needed * load, load, summary };
          })
          .filter(({ load, summary }) => summary === null || load < summary.capacity);
        const bytesOf = () => 1;
        const choice = chooseWorker(need, workers, options({ loadFactor, loadWeight, turn, bytesOf }));
        expect(choice === undefined).toBe(open.length === 0);
        if (choice === undefined) return;
        const bound = (loadFactor * open.reduce((sum, { load }) => sum + load, 1)) / open.length + 1;
        const chosen = open.find(({ index }) => index === choice.worker)!;
        expect(chosen.load + 1).toBeLessThanOrEqual(bound);
        for (const { load, cost } of open) {
          if (load + 1 > bound) continue;
          expect(cost).toBeGreaterThanOrEqual(chosen.cost);
          if (cost === chosen.cost) expect(load).toBeGreaterThanOrEqual(chosen.load);
        }
      }),
    );
  });

  it('is round robin without summaries, whatever is needed', () => {
    fc.assert(
      fc.property(anyCase, ({ workers, need, loadFactor, loadWeight, turn }) => {
        const silent = workers.map(() => ({ summary: null }));
        const chosen = chooseWorker(need, silent, options({ loadFactor, loadWeight, turn }))!;
        expect(chosen).toMatchObject({ worker: turn % workers.length, by: 'turn' });
      }),
    );
  });
});

describe('what a request needs', () => {
  it('is the chance that any of its turns needs an expert', () => {
    const need = requestNeed(
      [
        { firstId: 0, need: Float32Array.of(0.5, 1) },
        { firstId: 2, need: Float32Array.of(0, 0.25) },
        { firstId: 0, need: Float32Array.of(0.5, 0) },
      ],
      4,
    );
    expect([...need!]).toEqual([0.75, 1, 0, 0.25]);
  });

  it('is unknown without tables', () => {
    expect(requestNeed([], 4)).toBeNull();
  });
});
