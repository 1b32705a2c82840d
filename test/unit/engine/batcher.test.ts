import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Batcher, type PendingItem } from '../../../src/engine/batcher.js';
import type { EncodeBatch } from '../../../src/inference/messages.js';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

let nextItem = 0;
function item(tokens: number, job = 0): PendingItem {
  const work = { kind: 'generate', maxTokens: 1, logprobs: null } as const;
  const id = nextItem++;
  return { item: id, job, jobItems: 1, routingK: 0, work, tokens: Array.from({ length: tokens }, () => id) };
}

function batcher(maxBatchTokens: number, waitMs = 2) {
  const sent: EncodeBatch[] = [];
  return { sent, batcher: new Batcher({ maxBatchTokens, waitMs, send: (batch) => sent.push(batch) }) };
}

const sizes = (batch: EncodeBatch) => batch.items.map((_, i) => batch.offsets[i + 1]! - batch.offsets[i]!);

describe('batcher', () => {
  it('waits for company from the first item on, no longer', () => {
    const { sent, batcher: under } = batcher(100, 5);
    under.add([item(3)]);
    vi.advanceTimersByTime(3);
    under.add([item(4)]);
    expect(sent).toEqual([]);
    vi.advanceTimersByTime(2);
    expect(sent.map(sizes)).toEqual([[3, 4]]);
  });

  it('sends at once when the budget is full or when it need not wait', () => {
    const full = batcher(10);
    full.batcher.add([item(4), item(6)]);
    expect(full.sent.map(sizes)).toEqual([[4, 6]]);
    const hasty = batcher(10, 0);
    hasty.batcher.add([item(1)]);
    expect(hasty.sent.map(sizes)).toEqual([[1]]);
  });

  it('splits a job over batches in order of arrival, one batch for each place in the queue', () => {
    const { sent, batcher: under } = batcher(10);
    under.add([item(6), item(5), item(5), item(1)]);
    expect(sent.map(sizes)).toEqual([[6]]);
    vi.advanceTimersByTime(1000);
    expect(sent).toHaveLength(1);
    under.accepted();
    expect(sent.map(sizes)).toEqual([[6], [5, 5]]);
    under.accepted();
    expect(sent.map(sizes)).toEqual([[6], [5, 5], [1]]);
    expect(sent.map(({ id }) => id)).toEqual([0, 1, 2]);
    expect(under.lastBatch).toBe(2);
  });

  it('lets an item that came just before a place became free wait its time', () => {
    const { sent, batcher: under } = batcher(10, 4);
    under.add([item(10)]);
    under.add([item(2)]);
    under.accepted();
    expect(sent).toHaveLength(1);
    vi.advanceTimersByTime(4);
    expect(sent.map(sizes)).toEqual([[10], [2]]);
  });

  it('leaves out what was cancelled while it waited', () => {
    const { sent, batcher: under } = batcher(10);
    under.add([item(3, 1), item(3, 2), item(3, 1)]);
    under.cancel(1);
    vi.advanceTimersByTime(2);
    expect(sent.map(({ items }) => items.map(({ job }) => job))).toEqual([[2]]);
    expect(under.waiting).toBe(0);
  });

  it('sends nothing when everything was cancelled', () => {
    const { sent, batcher: under } = batcher(10);
    under.add([item(3, 1)]);
    under.cancel(1);
    vi.advanceTimersByTime(10);
    expect(sent).toEqual([]);
  });

  it('keeps order and budget, loses nothing, and puts the tokens in shared memory', () => {
    fc.assert(
      fc.property(
        fc.array(fc.array(fc.integer({ min: 1, max: 16 }), { maxLength: 6 }), { maxLength: 12 }),
        (adds) => {
          const { sent, batcher: under } = batcher(16);
          const all = adds.map((lengths) => lengths.map((length) => item(length)));
          for (const items of all) {
            under.add(items);
            if (sent.length % 2 === 1) under.accepted();
          }
          for (let i = 0; i < 100; i++) {
            under.accepted();
            vi.advanceTimersByTime(2);
          }
          expect(sent.flatMap(({ items }) => items.map((each) => each.item))).toEqual(
            all.flat().map((each) => each.item),
          );
          for (const batch of sent) {
            expect(batch.tokens.length).toBeLessThanOrEqual(16);
            expect(batch.tokens.buffer).toBeInstanceOf(SharedArrayBuffer);
            batch.items.forEach((each, i) => {
              const ids = [...batch.tokens.subarray(batch.offsets[i], batch.offsets[i + 1])];
              expect(ids.every((id) => id === each.item)).toBe(true);
            });
          }
        },
      ),
    );
  });
});
