import { afterAll, describe, expect, it } from 'vitest';
import type { BatchOrder } from '../../../src/engine/batch-order.js';
import { Batcher, type PendingItem } from '../../../src/engine/batcher.js';
import { openTables } from '../../../src/inference/expected-visits.js';
import type { QueuedBatch } from '../../../src/inference/messages.js';
import { BuilderLoop } from '../../../src/predictor/builder-loop.js';
import { BuilderStats } from '../../../src/predictor/builder-stats.js';
import type { FromHashBuilder, ToHashBuilder } from '../../../src/predictor/hash-builder-thread.js';
import type { HashFunction } from '../../../src/predictor/hash-function.js';
import { TABLE_FAILED, TABLE_READY } from '../../../src/predictor/hash-table.js';
import { createQueue, QueueConsumer, QueueProducer } from '../../../src/predictor/hash-table-queue.js';
import { ResidentFlag } from '../../../src/predictor/resident-flag.js';
import { TableBuilder } from '../../../src/predictor/table-builder.js';

const SHAPE = { encoderLayers: 2, decoderLayers: 1, experts: 8, vocab: 100 };

/** Sends every token to the expert of its tens digit. */
const tens: HashFunction = {
  name: 'token',
  fill: (side, { tokens }, k, experts, alpha, chance) => {
    if (tokens.includes(99)) return false;
    const layers = side === 'encoder' ? SHAPE.encoderLayers : SHAPE.decoderLayers;
    for (let row = 0; row < layers * tokens.length; row++) {
      experts[row * k] = Math.floor(tokens[row % tokens.length]! / 10);
      alpha[row * k] = 1;
      chance[row * k] = 1;
    }
    return true;
  },
  close: () => {},
};

const ports: (() => void)[] = [];
afterAll(() => {
  for (const close of ports) close();
});

function bench({
  order = 'overlap' as BatchOrder,
  capacity = 2,
  predictor = tens as HashFunction | null,
  waitMs = 0,
} = {}) {
  const { producer, consumer } = createQueue(capacity);
  ports.push(() => producer.port.close());
  const stats = new BuilderStats();
  const resident = new ResidentFlag();
  const inbox: ToHashBuilder[] = [];
  const out: FromHashBuilder[] = [];
  const asked: number[] = [];
  const hashFunction = predictor && {
    ...predictor,
    fill: (...args: Parameters<HashFunction['fill']>) => {
      if (args[0] === 'encoder') asked.push(args[1].offsets.length - 1);
      return predictor.fill(...args);
    },
  };
  let now = 0;
  const clock = () => now;
  const builder =
    hashFunction && new TableBuilder({ hashFunction, shape: SHAPE, stats, onError: () => {}, clock });
  const emit = (message: FromHashBuilder) => void out.push(message);
  const loop = new BuilderLoop({
    queue: new QueueProducer<QueuedBatch>(producer),
    batcher: new Batcher({ order, maxBatchTokens: 4, maxPassedOver: 8, waitMs }),
    builder,
    stats,
    resident,
    nextMessage: () => inbox.shift(),
    emit,
    clock,
  });
  let nextItem = 0;
  const item = (...tokens: number[]): PendingItem => {
    const plan = { inputs: [{ tokens: [tokens[0]!] }] } as never;
    const id = nextItem++;
    return { item: id, job: id, jobItems: 1, routingK: 0, work: { kind: 'score', plan }, tokens };
  };
  const queue = new QueueConsumer<QueuedBatch>(consumer);
  return {
    add: (...items: number[][]) => inbox.push({ type: 'add', items: items.map((tokens) => item(...tokens)) }),
    post: (message: ToHashBuilder) => inbox.push(message),
    settle: () => {
      for (let turns = 0; loop.turn(); turns++) if (turns > 100) throw new Error('does not settle');
    },
    later: (ms: number) => {
      now += ms;
    },
    take: () => {
      const taken = queue.tryTake();
      const items = taken?.batch.items.map(({ item: id }) => id);
      return taken && { ...taken, items, opened: openTables(taken.tables) };
    },
    loop,
    queue,
    stats,
    resident,
    out,
    asked,
  };
}

describe('builder loop', () => {
  it('hands a batch on at once to an idle inference thread, and names what waits behind it before the next', () => {
    const { add, loop, queue, asked, settle, take, stats } = bench({ capacity: 2 });
    add([10, 11], [20, 21], [30, 31], [12, 13], [22, 23], [32, 33]);
    loop.turn();
    expect([queue.length, asked]).toEqual([1, [2]]);
    settle();
    // Four named one by one, none twice: the second batch's tables are those of its items.
    expect(asked).toEqual([2, 1, 1, 1, 1]);
    expect(take()!.items).toEqual([0, 1]);
    const second = take()!;
    expect(second.items).toEqual([2, 5]);
    expect([second.opened.encoder!.state, second.opened.decoder!.state]).toEqual([TABLE_READY, TABLE_READY]);
    expect([...second.opened.encoder!.need.subarray(0, 8)]).toEqual([0, 0, 0, 1, 0, 0, 0, 0]);
    expect(second.opened.decoder!.tokens).toBe(2);
    settle();
    expect(take()!.items).toEqual([3, 4]);
    expect(asked).toHaveLength(5);
    expect(stats.figures()).toMatchObject({ inputs: 6, passedOver: 2, overdue: 0, ready: 3 });
  });

  it('makes no batch while the queue is full', () => {
    const { add, settle, queue, take } = bench({ capacity: 1 });
    add([10, 11, 12], [20, 21, 22], [30, 31, 32]);
    settle();
    expect(queue.length).toBe(1);
    take();
    settle();
    expect(queue.length).toBe(1);
    expect(take()!.items).toEqual([1]);
  });

  it('keeps a batch that is not full while another is ahead of it', () => {
    const { add, settle, later, queue, take } = bench({ waitMs: 5, order: 'arrival' });
    add([10, 11, 12, 13], [20]);
    settle();
    later(100);
    settle();
    expect(queue.length).toBe(1);
    add([30, 31]);
    take();
    settle();
    expect(take()!.items).toEqual([1, 2]);
  });

  it('hands full batches on up to the bound of the queue', () => {
    const { add, settle, queue } = bench({ capacity: 3, order: 'arrival' });
    add(...Array.from({ length: 20 }, () => [10, 11]));
    settle();
    expect(queue.length).toBe(3);
  });

  it('waits for company', () => {
    const { add, settle, later, queue } = bench({ waitMs: 5 });
    add([10]);
    settle();
    expect(queue.length).toBe(0);
    later(5);
    settle();
    expect(queue.length).toBe(1);
  });

  it('does not wait for company while the inference thread has nothing to do', () => {
    const { add, settle, queue, take } = bench({ waitMs: 5 });
    queue.idle = true;
    settle();
    expect(queue.length).toBe(0);
    const { rings } = queue.arrivals;
    add([10]);
    settle();
    expect(take()!.items).toEqual([0]);
    expect(queue.arrivals.rings).toBeGreaterThan(rings);
    queue.idle = false;
    add([11]);
    settle();
    expect(queue.length).toBe(0);
  });

  it('names nothing ahead by arrival, without a predictor, or where every expert has a slot', () => {
    for (const setup of ['arrival', 'nobody', 'resident'] as const) {
      const order = setup === 'arrival' ? 'arrival' : 'overlap';
      const under = bench({ order, predictor: setup === 'nobody' ? null : tens, capacity: 1 });
      under.resident.all = setup === 'resident';
      under.add([10, 11], [20, 21], [12, 13], [22, 23]);
      under.settle();
      expect(under.asked, setup).toEqual(setup === 'arrival' ? [2] : []);
      const { items, tables } = under.take()!;
      expect([items, tables !== null], setup).toEqual([[0, 1], setup === 'arrival']);
      under.settle();
      expect(under.take()!.items, setup).toEqual([2, 3]);
    }
  });

  it('goes by arrival past an input that nobody can name, and fails its batch alone', () => {
    const { add, settle, take } = bench({ capacity: 1 });
    add([10, 11, 12, 13], [99, 1], [10, 11], [20, 21], [12, 13]);
    settle();
    take();
    settle();
    const without = take()!;
    expect(without.items).toEqual([1, 2]);
    expect(without.opened.encoder!.state).toBe(TABLE_FAILED);
    settle();
    const next = take()!;
    expect(next.items).toEqual([3, 4]);
    expect(next.opened.encoder!.state).toBe(TABLE_READY);
  });

  it('takes a cancelled job out and says after which batch it cannot come', () => {
    const { add, post, settle, out, take } = bench({ capacity: 1 });
    add([10, 11, 12], [20, 21, 22]);
    settle();
    post({ type: 'cancel', job: 1 });
    post({ type: 'cancel', job: 0 });
    settle();
    expect(out).toEqual([
      { type: 'cancelled', job: 1, lastBatch: 0 },
      { type: 'cancelled', job: 0, lastBatch: 0 },
    ]);
    expect(take()!.items).toEqual([0]);
    settle();
    expect(take()).toBeUndefined();
  });
});
