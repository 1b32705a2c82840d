import { afterAll, describe, expect, it } from 'vitest';
import { promptBatch } from '../../../src/batching/prompt-batch.js';
import { BuilderLoop } from '../../../src/predictor/builder-loop.js';
import { openTables } from '../../../src/predictor/expected-visits.js';
import type { HashFunction, RoutingShape } from '../../../src/predictor/hash-function.js';
import { TableBuilder } from '../../../src/predictor/table-builder.js';
import { BuilderStats } from '../../../src/protocol/builder-stats.js';
import { TABLE_FAILED, TABLE_READY } from '../../../src/protocol/hash-table.js';
import { createQueue, QueueConsumer, QueueProducer } from '../../../src/protocol/hash-table-queue.js';
import type { PromptBatch, QueuedBatch } from '../../../src/protocol/inference-messages.js';
import { SharedFlag } from '../../../src/protocol/shared-flag.js';
import { WakeUp } from '../../../src/protocol/wake-up.js';

const SHAPE: RoutingShape = {
  stacks: [
    { name: 'encoder', layers: 2, causal: false, crosses: false },
    { name: 'decoder', layers: 1, causal: true, crosses: true },
  ],
  experts: 8,
  topK: 1,
  normalized: false,
  vocab: 100,
};

/** A hash function that sends each token to the expert of its tens digit. It fails on token 99. */
const tens: HashFunction = {
  name: 'token',
  fill: (stack, { tokens }, { k, experts, alpha, chance }) => {
    if (tokens.includes(99)) return false;
    const { layers } = SHAPE.stacks[stack]!;
    for (let row = 0; row < layers * tokens.length; row++) {
      experts[row * k] = Math.floor(tokens[row % tokens.length]! / 10);
      alpha[row * k] = 1;
      chance[row * k] = 1;
    }
    return true;
  },
  stepper: () => null,
  close: () => {},
};

const ports: (() => void)[] = [];
afterAll(() => {
  for (const close of ports) close();
});

function bench(hashFunction: HashFunction | null = tens) {
  const { producer, consumer } = createQueue(4);
  ports.push(() => producer.port.close());
  const stats = new BuilderStats();
  const resident = new SharedFlag();
  const inbox: PromptBatch[] = [];
  const options = { shape: SHAPE, stats, onError: () => {} };
  const loop = new BuilderLoop({
    queue: new QueueProducer<QueuedBatch>(producer),
    builder: hashFunction && new TableBuilder({ hashFunction, ...options }),
    resident,
    work: new WakeUp(),
    nextBatch: () => inbox.shift(),
  });
  let nextBatch = 0;
  const queue = new QueueConsumer<QueuedBatch>(consumer);
  return {
    send: (inputs: number[][], routingK = 0) => {
      const items = inputs.map((tokens, item) => {
        const plan = { inputs: [{ tokens: [tokens[0]!] }] } as never;
        return { item, job: item, jobItems: 1, routingK, work: { kind: 'score' as const, plan }, tokens };
      });
      inbox.push(promptBatch(nextBatch++, items));
    },
    settle: () => {
      while (loop.turn());
    },
    take: () => {
      const { batch, tables } = queue.tryTake()!;
      const [encoder, decoder] = openTables(tables);
      return { batch, tables, encoder, decoder };
    },
    queue,
    stats,
    resident,
  };
}

describe('builder loop', () => {
  it('puts batches into the queue in order and fills their tables', () => {
    const { send, settle, take, stats } = bench();
    send([[10, 11], [30]]);
    send([[20]]);
    settle();
    const [first, second] = [take(), take()];
    expect([first.batch.id, second.batch.id]).toEqual([0, 1]);
    expect([first.encoder!.state, first.decoder!.state]).toEqual([TABLE_READY, TABLE_READY]);
    expect([...first.encoder!.need.subarray(0, 8)]).toEqual([0, 1, 0, 1, 0, 0, 0, 0]);
    expect(first.decoder!.tokens).toBe(2);
    expect(stats.figures()).toMatchObject({ ready: 2 });
  });

  it('signals when a table is filled, because the inference thread may be waiting for it', () => {
    const { send, settle, queue } = bench();
    const { signals } = queue.arrivals;
    send([[10]]);
    settle();
    expect(queue.arrivals.signals).toBe(signals + 2);
  });

  it('builds no table without a predictor, nor while every expert has a slot, unless tables route', () => {
    const unpredicted = bench(null);
    unpredicted.send([[10]]);
    unpredicted.settle();
    expect(unpredicted.take().tables).toBeNull();
    const { send, settle, take, resident } = bench();
    resident.raised = true;
    send([[10]]);
    send([[10]], 1);
    settle();
    expect([take().tables, take().encoder!.state]).toEqual([null, TABLE_READY]);
  });

  it('fails the table of a batch that the function cannot predict, and continues', () => {
    const { send, settle, take } = bench();
    send([[99, 1]]);
    send([[10]]);
    settle();
    expect([take().encoder!.state, take().encoder!.state]).toEqual([TABLE_FAILED, TABLE_READY]);
  });
});
