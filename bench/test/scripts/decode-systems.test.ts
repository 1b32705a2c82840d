// What decode-systems.mjs reads from the answers of its servers, and compares.
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { REPOSITORY } from '../../src/support/paths.js';

const script = (name: string) => import(join(REPOSITORY, 'bench/scripts/decode-systems', name));
const { beladyLoads, checkSame, checkTokens, rowsOf, timesAsFast, timesOf, visitsOf } =
  await script('figures.mjs');
const { takeEvent } = await script('streamed-completion.mjs');

const answer = (...ids: number[]) => ({ ids, first: 1, firstMs: 10, lastMs: 10 * ids.length });

it('takes the first and the last event with tokens of a stream, and its end', () => {
  const read = { ids: [], first: 0, firstMs: 0, lastMs: 0 };
  const event = (ids: number[]) => `data: ${JSON.stringify({ choices: [{ token_ids: ids }] })}`;
  takeEvent(read, event([]), 5);
  takeEvent(read, event([7, 8]), 10);
  takeEvent(read, event([9]), 20);
  takeEvent(read, 'data: {"choices":[],"usage":{}}', 30);
  expect(read).toEqual({ ids: [7, 8, 9], first: 2, firstMs: 10, lastMs: 20 });
  takeEvent(read, 'data: [DONE]', 31);
  expect(read).toMatchObject({ ended: true });
});

it('keeps the error of a stream that fails', () => {
  const read = { ids: [], first: 0, firstMs: 0, lastMs: 0 };
  takeEvent(read, 'data: {"error":{"code":"cannot_run"}}', 5);
  expect(read).toMatchObject({ error: '{"code":"cannot_run"}' });
});

it('refuses tokens other than those of the trace, whether an end token or the length ended the answer', () => {
  const traced = [{ answer: [5, 6, 7] }];
  checkTokens('lru', [answer(5, 6, 7, 4)], traced);
  checkTokens('lru', [answer(5, 6, 7)], traced);
  expect(() => checkTokens('lru', [answer(5, 9, 7, 4)], traced)).toThrow(
    /^lru: answer 0 is 5 9 7 4, and 5 6 7/,
  );
  expect(() => checkTokens('lru', [answer(5, 6, 9)], traced)).toThrow('lru: answer 0');
  expect(() => checkTokens('lru', [answer(5, 6)].concat(answer()), [...traced, ...traced])).toThrow(
    'answer 1',
  );
});

it('refuses a server whose last tokens differ', () => {
  checkSame(['none', 'lru'], [[answer(5, 4)], [answer(5, 4)]]);
  expect(() => checkSame(['none', 'lru'], [[answer(5, 4)], [answer(5, 0)]])).toThrow(
    'lru gives other tokens than none',
  );
});

/** Two layers of three experts, top 2 recorded of which the first ran; a prompt of two tokens and two more. */
const record = {
  prompt: [1, 2],
  answer: [3, 4],
  experts: Uint16Array.from([...[0, 1, 2, 1, 0, 1, 1, 2], ...[1, 0, 1, 2, 2, 0, 0, 1]]),
};
const shape = { layers: 2, experts: 3, topK: 1, top: 2 };

it('lists what each layer of each pass needs, as far as the server has read', () => {
  expect(visitsOf(record, 2, shape)).toEqual([[0, 2], [4], [0], [5], [1], [3]]);
  expect(visitsOf(record, 1, shape)).toEqual([[0, 2], [4], [0], [5]]);
});

it("counts only the loads of Belady's rule behind the warm-up", () => {
  expect(beladyLoads([], [[0], [1], [0], [2], [0]], 3, 2)).toBe(3);
  expect(beladyLoads([[0], [1]], [[0], [2], [0]], 3, 2)).toBe(1);
  expect(beladyLoads([[0], [1]], [[0], [1]], 3, 3)).toBe(0);
});

it('sums times of answers, and leaves the first tokens out of the decoding', () => {
  const found = timesOf([answer(1, 2, 3), answer(1, 2)]);
  expect(found).toEqual({ tokens: 5, decoded: 3, decodeMs: 30, wholeMs: 50, firstMs: 10 });
});

it('compares speeds by the starts, and none of a system with itself', () => {
  expect(timesAsFast([50, 50], [100, 100])).toEqual({ mean: 2, low: 2, high: 2 });
  const { mean, low, high } = timesAsFast([100, 100], [100, 400]);
  expect(mean).toBeCloseTo(2);
  expect(low).toBeLessThan(1);
  expect(high).toBeGreaterThan(4);
  const figures = (decodeMs: number) => ({
    slots: 4,
    tokens: 11,
    decoded: 10,
    decodeMs,
    wholeMs: 2 * decodeMs,
    passes: 1,
  });
  const names = ['none', 'lru', 'resident'];
  const start = { none: figures(100), lru: figures(200), resident: figures(50) };
  const [none, lru] = rowsOf(names, [start, start]);
  expect(none).toMatchObject({ system: 'none', overNone: null, passes: 2, perSecond: [100, 100] });
  expect(lru.overNone.mean).toBeCloseTo(0.5);
  expect(lru.overResident.mean).toBeCloseTo(0.25);
  expect(lru.wholePerSecond).toEqual([27.5, 27.5]);
});
