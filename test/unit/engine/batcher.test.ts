import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { BatchOrder } from '../../../src/engine/batch-order.js';
import { Batcher, type PendingItem } from '../../../src/engine/batcher.js';
import { encodeBatch } from '../../../src/engine/encode-batch.js';
import type { EncodeBatch } from '../../../src/inference/messages.js';
import { createHashTable, TABLE_PREDICTED } from '../../../src/predictor/hash-table.js';

let nextItem = 0;
function item(tokens: number, job = 0, routingK = 0): PendingItem {
  const work = { kind: 'generate', maxTokens: 1, logprobs: null, choices: [null] } as const;
  const id = nextItem++;
  return { item: id, job, jobItems: 1, routingK, work, tokens: Array.from({ length: tokens }, () => id) };
}

function batcher(maxBatchTokens: number, { waitMs = 2, order = 'arrival' as BatchOrder } = {}) {
  return new Batcher({ order, maxBatchTokens, maxPassedOver: 8, waitMs });
}

const sizes = (batch: EncodeBatch) => batch.items.map((_, i) => batch.offsets[i + 1]! - batch.offsets[i]!);

/** Tables of an item that is sure of these experts in one layer. */
function tablesOf({ tokens }: PendingItem, experts: number[]) {
  const shape = { batchId: 0, layers: 1, tokens: tokens.length, k: 1, kind: TABLE_PREDICTED } as const;
  const encoder = createHashTable({ ...shape, expertsPerLayer: 40 });
  for (const expert of experts) encoder.need[expert] = 1;
  return { encoder, decoder: null };
}

describe('batcher', () => {
  it('waits for company from the first item on, no longer', () => {
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

  it('keeps items of different routing apart, and the order within each', () => {
    const under = batcher(10);
    under.add([item(2, 1, 0), item(3, 2, 1), item(4, 3, 0), item(5, 4, 1)], 0);
    const batches = [under.take(), under.take()].map(({ batch }) => batch);
    expect(batches.map(({ routingK, items }) => [routingK, ...items.map(({ job }) => job)])).toEqual([
      [0, 1, 3],
      [1, 2, 4],
    ]);
  });

  it('leaves out what was cancelled while it waited', () => {
    const under = batcher(10);
    under.add([item(3, 1), item(3, 2), item(3, 1)], 0);
    under.cancel(1);
    expect(under.take().batch.items.map(({ job }) => job)).toEqual([2]);
    under.add([item(3, 1)], 0);
    under.cancel(1);
    expect([under.waiting, under.dueIn(100)]).toEqual([0, Number.POSITIVE_INFINITY]);
  });

  it('keeps order and budget, loses nothing, and puts the tokens in shared memory', () => {
    fc.assert(
      fc.property(fc.array(fc.array(fc.integer({ min: 1, max: 16 }), { maxLength: 6 })), (adds) => {
        const under = batcher(16, { waitMs: 0 });
        const all = adds.map((lengths) => lengths.map((length) => item(length)));
        const batches: EncodeBatch[] = [];
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

describe('batcher by overlap', () => {
  it('asks for the tables of each waiting item once, the oldest first; by arrival for none', () => {
    const under = batcher(100, { order: 'overlap' });
    const items = [item(2), item(3)];
    under.add(items, 0);
    for (const expected of items) {
      const waiting = under.unnamed()!;
      expect(waiting.item).toBe(expected);
      under.name(waiting, null);
    }
    expect(under.unnamed()).toBeUndefined();
    const arrival = batcher(100);
    arrival.add([item(2)], 0);
    expect(arrival.unnamed()).toBeUndefined();
  });

  it('looks no further ahead than its window', () => {
    const under = batcher(16_384, { order: 'overlap' });
    under.add(
      Array.from({ length: 8 }, () => item(10_000)),
      0,
    );
    let asked = 0;
    for (let next = under.unnamed(); next !== undefined; next = under.unnamed()) {
      under.name(next, null);
      asked += 1;
    }
    // 4 · 16384 tokens.
    expect(asked).toBe(6);
  });

  it('hands the tables of its items on with the batch, and tells whom it passed over', () => {
    const under = batcher(8, { order: 'overlap' });
    const items = [item(4), item(4), item(4), item(4)];
    under.add(items, 0);
    const experts = [
      [1, 2],
      [20, 21],
      [2, 3],
      [20, 22],
    ];
    const tables = items.map((each, i) => tablesOf(each, experts[i]!));
    for (const each of tables) under.name(under.unnamed()!, each);
    const first = under.take();
    expect(first.batch.items.map((each) => each.item)).toEqual([items[0]!.item, items[2]!.item]);
    expect(first).toMatchObject({ parts: [tables[0], tables[2]], passedOver: 1, overdue: 0 });
    const second = under.take();
    expect(second).toMatchObject({ parts: [tables[1], tables[3]], passedOver: 0, overdue: 0 });
  });

  it('has no tables for a batch that lacks those of one item', () => {
    const under = batcher(8, { order: 'overlap' });
    const items = [item(4), item(4)];
    under.add(items, 0);
    under.name(under.unnamed()!, tablesOf(items[0]!, [1]));
    const { batch, parts } = under.take();
    expect([batch.items.length, parts]).toEqual([2, null]);
  });
});

it('a batch of one item names its tokens as a larger one would', () => {
  const one = item(3);
  const { offsets, tokens, items } = encodeBatch(7, [one]);
  expect([[...offsets], [...tokens]]).toEqual([[0, 3], [...one.tokens]]);
  expect(items).toEqual([{ item: one.item, job: 0, jobItems: 1, work: one.work }]);
});
