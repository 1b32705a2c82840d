import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createQueue, QueueConsumer, QueueGauge, QueueProducer } from '../../../src/protocol/batch-queue.js';
import type { PreparedRequest, PromptBatch } from '../../../src/protocol/inference-messages.js';
import { Batcher, BatchFeed } from '../../../src/scheduler/batch.js';

let nextItem = 0;
function item(tokens: number, job = 0, routingK = 0, owner = '', dueMs = 0): PreparedRequest {
  const work = { kind: 'generate', maxTokens: 1, logprobs: null, choices: [null] } as const;
  const id = nextItem++;
  return {
    item: id,
    job,
    jobItems: 1,
    routingK,
    owner,
    dueMs,
    work,
    tokens: new Int32Array(tokens).fill(id),
  };
}

function batcher(maxBatchTokens: number, { waitMs = 2 } = {}) {
  return new Batcher({ maxBatchTokens, waitMs });
}

const sizes = (batch: PromptBatch) => batch.requests.map(({ tokens }) => tokens.length);

describe('batcher', () => {
  it('waits for further items, counting from the first one', () => {
    const under = batcher(100, { waitMs: 5 });
    expect(under.dueIn(0)).toBe(Number.POSITIVE_INFINITY);
    under.add([item(3)], 10);
    expect(under.dueIn(10)).toBe(5);
    under.add([item(4)], 13);
    expect([under.dueIn(13), under.dueIn(15), under.dueIn(99)]).toEqual([2, 0, 0]);
    expect(sizes(under.take(0).batch)).toEqual([3, 4]);
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
    const batches = [under.take(0), under.take(0), under.take(0)].map(({ batch }) => batch);
    expect(batches.map(sizes)).toEqual([[6], [5, 5], [1]]);
    expect(batches.map(({ id }) => id)).toEqual([0, 1, 2]);
    expect([under.lastBatch, under.waiting]).toEqual([2, 0]);
  });

  it('counts the tokens of labels', () => {
    const under = batcher(100);
    const plan = { labels: 2, first: [], inputs: [{ tokens: Array(70).fill(1), rows: [] }] };
    const scored = () => ({ ...item(5, 1), work: { kind: 'score' as const, plan } });
    under.add([scored(), scored(), item(20, 2)], 0);
    expect(under.full).toBe(true);
    const jobs = () => under.take(0).batch.requests.map(({ job }) => job);
    expect([jobs(), jobs()]).toEqual([[1, 2], [1]]);
  });

  it('takes what is due first, and among equals what came first', () => {
    const under = batcher(10);
    const due = (job: number, dueMs: number) => item(6, job, 0, '', dueMs);
    under.add([due(1, 30), due(1, 30), due(2, 20)], 0);
    under.add([due(3, 30), due(4, 10)], 0);
    const jobs = () => under.take(0).batch.requests.map(({ job }) => job);
    expect([jobs(), jobs(), jobs(), jobs(), jobs()]).toEqual([[4], [2], [1], [1], [3]]);
  });

  it('takes one request of a job that is due, and then the other jobs of its key', () => {
    const under = batcher(10);
    const due = (job: number, dueMs: number) => item(6, job, 0, '', dueMs);
    under.add([due(1, 30), due(1, 30), due(1, 30), due(2, 40), due(2, 40), due(3, 60)], 0);
    const job = () => under.take(30).batch.requests[0]!.job;
    expect([job(), job(), job()]).toEqual([1, 2, 2]);
    under.add([due(4, 70)], 0);
    expect([job(), job(), job(), job()]).toEqual([3, 1, 1, 4]);
  });

  it('lets a single request go before a job with many inputs ends, however late that is', () => {
    const under = batcher(10);
    under.add(
      Array.from({ length: 1_000 }, () => item(6, 1, 0, '', 300)),
      0,
    );
    let now = 1_000;
    under.add([item(6, 2, 0, '', now + 10)], now);
    const jobs = () => under.take(now++).batch.requests[0]!.job;
    expect([jobs(), jobs()]).toEqual([1, 2]);
  });

  it('names a key that is not ahead', () => {
    const under = batcher(10);
    under.add([item(6, 1, 0, 'a', 20)], 0);
    expect(under.keyBeside(new Set(['a', 'b']))).toBeUndefined();
    expect(under.keyBeside(new Set(['b']))).toBe('a');
  });

  it('lets owners take turns', () => {
    const under = batcher(10);
    const of = (owner: string, job: number) => item(6, job, 0, owner);
    under.add([of('a', 1), of('a', 2), of('a', 3), of('b', 4), of('b', 5)], 0);
    const jobs = () => under.take(0).batch.requests.map(({ job }) => job);
    expect([jobs(), jobs(), jobs(), jobs(), jobs()]).toEqual([[1], [4], [2], [5], [3]]);
    const wide = batcher(12);
    wide.add([of('a', 1), of('a', 2), of('b', 3)], 0);
    expect(wide.take(0).batch.requests.map(({ job }) => job)).toEqual([1, 3]);
  });

  it('makes a batch of its own of an item that is larger than a batch', () => {
    const under = batcher(10);
    under.add([item(4, 1), item(30, 2), item(4, 3)], 0);
    const jobs = () => under.take(0).batch.requests.map(({ job }) => job);
    expect([jobs(), jobs(), jobs()]).toEqual([[1], [2], [3]]);
  });

  it('keeps items of different routing apart, and the order within each', () => {
    const under = batcher(10);
    under.add([item(2, 1, 0), item(3, 2, 1), item(4, 3, 0), item(5, 4, 1)], 0);
    const batches = [under.take(0), under.take(0)].map(({ batch }) => batch);
    expect(batches.map(({ routingK, requests }) => [routingK, ...requests.map(({ job }) => job)])).toEqual([
      [0, 1, 3],
      [1, 2, 4],
    ]);
  });

  it('leaves out items that were cancelled while they waited', () => {
    const under = batcher(10);
    under.add([item(3, 1), item(3, 2), item(3, 1)], 0);
    under.cancel(1);
    expect(under.take(0).batch.requests.map(({ job }) => job)).toEqual([2]);
    under.add([item(3, 1)], 0);
    under.cancel(1);
    expect([under.waiting, under.dueIn(100)]).toEqual([0, Number.POSITIVE_INFINITY]);
  });

  it('keeps order and budget, and loses no request', () => {
    fc.assert(
      fc.property(fc.array(fc.array(fc.integer({ min: 1, max: 16 }), { maxLength: 6 })), (adds) => {
        const under = batcher(16, { waitMs: 0 });
        const all = adds.map((lengths) => lengths.map((length) => item(length)));
        const batches: PromptBatch[] = [];
        for (const items of all) {
          under.add(items, 0);
          if (under.waiting > 0) batches.push(under.take(0).batch);
        }
        while (under.waiting > 0) batches.push(under.take(0).batch);
        expect(batches.flatMap(({ requests }) => requests)).toEqual(all.flat());
        for (const batch of batches)
          expect(sizes(batch).reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(16);
      }),
    );
  });
});

// When batches are sent to the inference thread. The test itself is the consumer of the queue.
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
  let nextJob = 0;
  void feed.follow();
  const addOf = (owner: string, ...tokens: number[]) =>
    feed.add(tokens.map((each) => ({ ...item(each, 0, 0, owner), item: nextJob, job: nextJob++ })));
  return {
    feed,
    queue,
    add: (...tokens: number[]) => addOf('', ...tokens),
    addOf,
    take: () => queue.tryTake()?.requests.map(({ item: id }) => id),
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

  it('sends jobs of other owners beyond the capacity while requests wait for KV pages', async () => {
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

  it('leaves places to other owners, however soon the requests of one are due', async () => {
    const { feed, addOf, queue, take, heard } = bench({ capacity: 1 });
    queue.blocked = true;
    for (let id = 0; id < 40; id += 1) feed.add([{ ...item(4, id, 0, 'a', -id), item: id }]);
    await heard();
    addOf('b', 4);
    await heard();
    expect([take()?.length, queue.length]).toEqual([1, 1]);
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
