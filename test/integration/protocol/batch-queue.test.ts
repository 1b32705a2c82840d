import { pathToFileURL } from 'node:url';
import { Worker } from 'node:worker_threads';
import { describe, expect, it } from 'vitest';
import {
  createQueue,
  QueueConsumer,
  type QueueEnd,
  QueueGauge,
  QueueProducer,
} from '../../../src/protocol/batch-queue.js';
import { WakeUp } from '../../../src/protocol/wake-up.js';
import { DIST } from '../../support/sida-process.js';

/** Runs `body` in a separate thread. The body sees `end`, the queue classes, WakeUp and parentPort. */
function thread(body: string, end: QueueEnd): Worker {
  const module = (name: string) => JSON.stringify(pathToFileURL(`${DIST}/protocol/${name}.js`).href);
  const code = `
    const { workerData: end, parentPort } = require('node:worker_threads');
    Promise.all([import(${module('batch-queue')}), import(${module('wake-up')})]).then(
      ([{ QueueProducer, QueueConsumer, QueueGauge }, { WakeUp }]) => { ${body} });`;
  return new Worker(code, { eval: true, workerData: end, transferList: [end.port] });
}

function nextMessage<T>(worker: Worker): Promise<T> {
  return new Promise((resolve, reject) => {
    worker.once('message', resolve);
    worker.once('error', reject);
  });
}

describe('hash table queue', () => {
  it('passes all entries between two threads in order', async () => {
    const { producer, consumer } = createQueue(4);
    const writer = thread(
      `const queue = new QueueProducer(end);
       const gauge = new QueueGauge(end);
       for (let i = 0; i < 2000; i++) {
         for (;;) {
           const seen = gauge.departures.signals;
           if (i - gauge.taken < gauge.capacity) break;
           gauge.departures.wait(seen, 10000);
         }
         const table = new SharedArrayBuffer(4);
         new Int32Array(table)[0] = i * 3;
         queue.put({ i, table });
       }`,
      producer,
    );
    const reader = thread(
      `const queue = new QueueConsumer(end);
       let wrong = 0, longest = 0;
       for (let i = 0; i < 2000; i++) {
         longest = Math.max(longest, queue.length);
         let entry;
         for (;;) {
           const seen = queue.arrivals.signals;
           entry = queue.tryTake();
           if (entry !== undefined || !queue.arrivals.wait(seen, 10000)) break;
         }
         if (entry === undefined || entry.i !== i || new Int32Array(entry.table)[0] !== i * 3) wrong++;
       }
       parentPort.postMessage({ wrong, longest, left: queue.length });`,
      consumer,
    );
    const result = await nextMessage<{ wrong: number; longest: number; left: number }>(reader);
    expect(result).toMatchObject({ wrong: 0, left: 0 });
    expect(result.longest).toBeLessThanOrEqual(4);
    await Promise.all([writer.terminate(), reader.terminate()]);
  }, 20_000);

  it('refuses more than its capacity and the places of newcomers', () => {
    const { producer, consumer } = createQueue(2);
    const [writer, reader] = [new QueueProducer<number>(producer), new QueueConsumer<number>(consumer)];
    const { mostCapacity: most } = new QueueGauge(producer);
    expect(most).toBeGreaterThan(2);
    const entries = Array.from({ length: most + 1 }, (_, i) => i);
    for (const entry of entries.slice(0, most)) writer.put(entry);
    expect(() => writer.put(most)).toThrow(`The queue holds ${most} of ${most}. This is a bug.`);
    expect(reader.tryTake()).toBe(0);
    writer.put(most);
    expect(entries.map(() => reader.tryTake())).toEqual([...entries.slice(1), undefined]);
    producer.port.close();
  });

  it('reports to its feeder, without blocking, how many entries were taken and when the consumer is idle', async () => {
    const { producer, consumer } = createQueue(2);
    const gauge = new QueueGauge(producer);
    const queue = new QueueProducer<number>(producer);
    expect([gauge.taken, gauge.consumerIdle, gauge.capacity]).toEqual([0, false, 2]);
    queue.put(5);
    const seen = gauge.departures.signals;
    const reader = thread(
      `const queue = new QueueConsumer(end);
       const entry = queue.tryTake();
       setTimeout(() => { queue.idle = true; parentPort.postMessage(entry); }, 50);`,
      consumer,
    );
    const took = nextMessage(reader);
    await gauge.departures.signalled(seen);
    expect(gauge.taken).toBe(1);
    while (!gauge.consumerIdle) await gauge.departures.signalled(gauge.departures.signals);
    expect(await took).toBe(5);
    // A signal from the past resolves at once.
    await gauge.departures.signalled(seen);
    producer.port.close();
    await reader.terminate();
  }, 20_000);

  it('wakes a waiting consumer for a control message too', async () => {
    const { consumer } = createQueue(2);
    const reader = thread(
      `const wakeUp = new QueueConsumer(end).arrivals;
       const seen = wakeUp.signals;
       parentPort.postMessage('waiting');
       parentPort.postMessage(wakeUp.wait(seen, 10000));`,
      consumer,
    );
    expect(await nextMessage(reader)).toBe('waiting');
    const woken = nextMessage(reader);
    new WakeUp(consumer.arrivals).signal();
    expect(await woken).toBe(true);
    await reader.terminate();
  }, 20_000);

  it('shows waiting entries, which still count toward the capacity', () => {
    const { producer, consumer } = createQueue(3);
    const [writer, reader] = [new QueueProducer<number>(producer), new QueueConsumer<number>(consumer)];
    for (const entry of [1, 2, 3]) writer.put(entry);
    expect(reader.tryTake()).toBe(1);
    expect(reader.waiting()).toEqual([2, 3]);
    expect(reader.length).toBe(2);
    expect([reader.tryTake(), reader.tryTake(), reader.tryTake()]).toEqual([2, 3, undefined]);
    producer.port.close();
  });
});
