import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { PromptBatch } from '../../../src/protocol/inference-messages.js';
import { Batcher } from '../../../src/scheduler/batcher.js';
import type { PendingItem } from '../../../src/scheduler/prompt-batch.js';
import { promptBatch } from '../../../src/scheduler/prompt-batch.js';

let nextItem = 0;
function item(tokens: number, job = 0, routingK = 0): PendingItem {
  const work = { kind: 'generate', maxTokens: 1, logprobs: null, choices: [null] } as const;
  const id = nextItem++;
  return { item: id, job, jobItems: 1, routingK, work, tokens: Array.from({ length: tokens }, () => id) };
}

function batcher(maxBatchTokens: number, { waitMs = 2 } = {}) {
  return new Batcher({ maxBatchTokens, waitMs });
}

const sizes = (batch: PromptBatch) => batch.items.map((_, i) => batch.offsets[i + 1]! - batch.offsets[i]!);

describe('batcher', () => {
  it('waits for further items, counting from the first one', () => {
    const under = batcher(100, { waitMs: 5 });
    expect(under.dueIn(0)).toBe(Number.POSITIVE_INFINITY);
    under.add([item(3)], 10);
    expect(under.dueIn(10)).toBe(5);
    under.add([item(4)], 13);
    expect([under.dueIn(13), under.dueIn(15), under.dueIn(99)]).toEqual([2, 0, 0]);
    expect(sizes(under.take().batch)).toEqual([3, 4]);
    expect(under.dueIn(99)).toBe(Number.POSITIVE_INFINITY);
  });

  it('is due at once when the budget is full or when it need not wait', () => {
    const full = batcher(10);
    full.add([item(4), item(6)], 0);
    expect(full.dueIn(0)).toBe(0);
    const hasty = batcher(10, { waitMs: 0 });
    hasty.add([item(1)], 0);
    expect(hasty.dueIn(0)).toBe(0);
  });

  it('splits a job over batches in order of arrival', () => {
    const under = batcher(10);
    under.add([item(6), item(5), item(5), item(1)], 0);
    const batches = [under.take(), under.take(), under.take()].map(({ batch }) => batch);
    expect(batches.map(sizes)).toEqual([[6], [5, 5], [1]]);
    expect(batches.map(({ id }) => id)).toEqual([0, 1, 2]);
    expect([under.lastBatch, under.waiting]).toEqual([2, 0]);
  });

  it('counts the tokens of labels, and lets other jobs go between the inputs of one', () => {
    const under = batcher(100);
    const plan = { labels: 2, first: [], inputs: [{ tokens: Array(70).fill(1), rows: [] }] };
    const scored = () => ({ ...item(5, 1), work: { kind: 'score' as const, plan } });
    under.add([scored(), scored(), scored()], 0);
    expect(under.full).toBe(true);
    const jobs = () => under.take().batch.items.map(({ job }) => job);
    expect(jobs()).toEqual([1]);
    under.add([item(20, 2), item(20, 3)], 0);
    under.add([item(20, 4), item(90, 4)], 0);
    expect([jobs(), jobs(), jobs(), jobs()]).toEqual([[1], [2, 3, 4], [4], [1]]);
  });

  it('lets owners take turns', () => {
    const under = batcher(10);
    const of = (owner: string, job: number) => ({ ...item(6, job), owner });
    under.add([of('a', 1), of('a', 2), of('a', 3), of('b', 4), of('b', 5)], 0);
    const jobs = () => under.take().batch.items.map(({ job }) => job);
    expect([jobs(), jobs(), jobs(), jobs(), jobs()]).toEqual([[1], [4], [2], [5], [3]]);
    const wide = batcher(12);
    wide.add([of('a', 1), of('a', 2), of('b', 3)], 0);
    expect(wide.take().batch.items.map(({ job }) => job)).toEqual([1, 3]);
  });

  it('makes a batch of its own of an item that is larger than a batch', () => {
    const under = batcher(10);
    under.add([item(4, 1), item(30, 2), item(4, 3)], 0);
    const jobs = () => under.take().batch.items.map(({ job }) => job);
    expect([jobs(), jobs(), jobs()]).toEqual([[1], [2], [3]]);
  });

  it('keeps items of different routing apart, and the order within each', () => {
    const under = batcher(10);
    under.add([item(2, 1, 0), item(3, 2, 1), item(4, 3, 0), item(5, 4, 1)], 0);
    const batches = [under.take(), under.take()].map(({ batch }) => batch);
    expect(batches.map(({ routingK, items }) => [routingK, ...items.map(({ job }) => job)])).toEqual([
      [0, 1, 3],
      [1, 2, 4],
    ]);
  });

  it('leaves out items that were cancelled while they waited', () => {
    const under = batcher(10);
    under.add([item(3, 1), item(3, 2), item(3, 1)], 0);
    under.cancel(1);
    expect(under.take().batch.items.map(({ job }) => job)).toEqual([2]);
    under.add([item(3, 1)], 0);
    under.cancel(1);
    expect([under.waiting, under.dueIn(100)]).toEqual([0, Number.POSITIVE_INFINITY]);
  });

  it('keeps order and budget, loses no item, and puts the tokens in shared memory', () => {
    fc.assert(
      fc.property(fc.array(fc.array(fc.integer({ min: 1, max: 16 }), { maxLength: 6 })), (adds) => {
        const under = batcher(16, { waitMs: 0 });
        const all = adds.map((lengths) => lengths.map((length) => item(length)));
        const batches: PromptBatch[] = [];
        for (const items of all) {
          under.add(items, 0);
          if (under.waiting > 0) batches.push(under.take().batch);
        }
        while (under.waiting > 0) batches.push(under.take().batch);
        const ids = batches.flatMap(({ items }) => items.map((each) => each.item));
        expect(ids).toEqual(all.flat().map((each) => each.item));
        for (const batch of batches) {
          expect(batch.tokens.length).toBeLessThanOrEqual(16);
          expect(batch.tokens.buffer).toBeInstanceOf(SharedArrayBuffer);
          batch.items.forEach((each, i) => {
            const own = [...batch.tokens.subarray(batch.offsets[i], batch.offsets[i + 1])];
            expect(own.every((id) => id === each.item)).toBe(true);
          });
        }
      }),
    );
  });
});

it('a batch of one item has the same layout as a larger one', () => {
  const one = item(3);
  const { offsets, tokens, items } = promptBatch(7, [one]);
  expect([[...offsets], [...tokens]]).toEqual([[0, 3], [...one.tokens]]);
  expect(items).toEqual([{ item: one.item, job: 0, jobItems: 1, work: one.work }]);
});
