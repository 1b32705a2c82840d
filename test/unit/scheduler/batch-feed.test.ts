// Tests when batches are sent to the inference thread. The test itself is the consumer of the queue.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  createQueue,
  QueueConsumer,
  QueueGauge,
  QueueProducer,
} from '../../../src/protocol/hash-table-queue.js';
import type { PromptBatch } from '../../../src/protocol/inference-messages.js';
import { BatchFeed } from '../../../src/scheduler/batch-feed.js';
import { Batcher } from '../../../src/scheduler/batcher.js';
import type { PendingItem } from '../../../src/scheduler/prompt-batch.js';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] });
});
afterEach(() => {
  for (const close of ports.splice(0)) close();
  vi.useRealTimers();
});

const ports: (() => void)[] = [];

function bench({ capacity = 2, waitMs = 0 } = {}) {
  const { producer, consumer } = createQueue(capacity);
  ports.push(() => producer.port.close());
  const put = new QueueProducer<PromptBatch>(producer);
  const queue = new QueueConsumer<PromptBatch>(consumer);
  const feed = new BatchFeed({
    batcher: new Batcher({ maxBatchTokens: 4, waitMs }),
    queue: new QueueGauge(producer),
    handOn: (batch) => put.put(batch),
    clock: () => Date.now(),
  });
  let nextItem = 0;
  const item = (tokens: number, owner?: string): PendingItem => {
    const id = nextItem++;
    const work = { kind: 'generate', maxTokens: 1, logprobs: null, choices: [null] } as const;
    const own = owner === undefined ? {} : { owner };
    return { item: id, job: id, jobItems: 1, routingK: 0, work, tokens: Array(tokens).fill(id), ...own };
  };
  void feed.follow();
  return {
    feed,
    queue,
    add: (...tokens: number[]) => feed.add(tokens.map((each) => item(each))),
    addOf: (owner: string, ...tokens: number[]) => feed.add(tokens.map((each) => item(each, owner))),
    take: () => queue.tryTake()?.items.map(({ item: id }) => id),
    /** Lets the feed receive the signals of taken batches. */
    heard: async () => {
      for (let turns = 0; turns < 20; turns++) await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

describe('batch feed', () => {
  it('sends full batches at once, up to the capacity of the queue', () => {
    const { add, queue } = bench({ capacity: 3, waitMs: 100 });
    add(...Array(20).fill(2));
    expect(queue.length).toBe(3);
  });

  it('sends jobs of other owners beyond the capacity while inputs wait for KV pages', async () => {
    const { addOf, queue, take, heard } = bench({ capacity: 1 });
    addOf('a', 4, 4, 4);
    addOf('b', 4, 4);
    addOf('c', 2);
    await heard();
    expect(queue.length).toBe(1);
    queue.blocked = true;
    await heard();
    expect([take(), take(), take(), take()]).toEqual([[0], [3], [5], undefined]);
    queue.blocked = false;
    await heard();
    expect(take()).toEqual([1]);
  });

  it('sends a few of them at most', async () => {
    const { addOf, queue, heard } = bench({ capacity: 1 });
    for (let owner = 0; owner < 20; owner += 1) addOf(`owner ${owner}`, 4);
    queue.blocked = true;
    await heard();
    expect(queue.length).toBeGreaterThan(1);
    expect(queue.length).toBeLessThan(10);
  });

  it('sends the next batch when the inference thread has taken one', async () => {
    const { add, queue, take, heard } = bench({ capacity: 1 });
    add(3, 3, 3);
    expect([queue.length, take()]).toEqual([1, [0]]);
    await heard();
    expect([queue.length, take()]).toEqual([1, [1]]);
    await heard();
    expect(take()).toEqual([2]);
  });

  it('waits for further items, for the configured time at most', async () => {
    const { add, queue, take } = bench({ waitMs: 5 });
    add(1);
    await vi.advanceTimersByTimeAsync(3);
    add(1);
    expect(queue.length).toBe(0);
    await vi.advanceTimersByTimeAsync(2);
    expect(take()).toEqual([0, 1]);
  });

  it('does not wait for further items while the inference thread is idle', async () => {
    const { add, queue, take, heard } = bench({ waitMs: 5 });
    add(1);
    queue.idle = true;
    await heard();
    expect(take()).toEqual([0]);
    add(1);
    expect(take()).toEqual([1]);
    queue.idle = false;
    add(1);
    expect(queue.length).toBe(0);
  });

  it('holds back a batch that is not full while another is ahead of it', async () => {
    const { add, queue, take, heard } = bench({ waitMs: 5 });
    add(4, 1);
    await vi.advanceTimersByTimeAsync(100);
    expect(queue.length).toBe(1);
    add(2);
    take();
    await heard();
    expect(take()).toEqual([1, 2]);
  });

  it('removes the items of a cancelled job and returns the last batch that may hold any', async () => {
    const { feed, add, take, heard } = bench({ capacity: 1 });
    add(3, 3);
    expect([feed.cancel(1), feed.cancel(0)]).toEqual([0, 0]);
    expect(take()).toEqual([0]);
    await heard();
    expect(take()).toBeUndefined();
  });
});
