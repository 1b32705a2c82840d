import { Worker } from 'node:worker_threads';
import { expect, it } from 'vitest';
import { TableWait } from '../../../src/forecast/table-wait.js';
import { noCounts } from '../../../src/protocol/counters.js';
import {
  createHashTable,
  type HashTable,
  TABLE_ABANDONED,
  TABLE_PENDING,
  TABLE_READY,
} from '../../../src/protocol/hash-table.js';
import { WakeUp } from '../../../src/protocol/wake-up.js';

function pending(): HashTable {
  return createHashTable({
    batchId: 1,
    layers: 1,
    tokens: 1,
    k: 1,
    expertsPerLayer: 2,
  });
}

function waiter() {
  const wakeUp = new WakeUp();
  const counters = noCounts();
  return { wakeUp, counters, wait: new TableWait(wakeUp, counters) };
}

/** Another thread that marks the table ready after `ms` milliseconds and signals. */
function readyAfter(ms: number, table: HashTable, wakeUp: WakeUp): Worker {
  const script = `const { table, wakeUp, ms } = require('node:worker_threads').workerData;
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
    Atomics.compareExchange(new Int32Array(table), 7, ${TABLE_PENDING}, ${TABLE_READY});
    Atomics.add(new Int32Array(wakeUp), 0, 1);
    Atomics.notify(new Int32Array(wakeUp), 0);`;
  return new Worker(script, { eval: true, workerData: { table: table.buffer, wakeUp: wakeUp.buffer, ms } });
}

it('neither waits nor counts a wait if no table is pending', () => {
  const { wait, counters } = waiter();
  const ready = pending();
  ready.settle(TABLE_READY);
  wait.settle([ready, null]);
  wait.settle([null, null]);
  wait.finish([ready, null]);
  expect([ready.state, counters.tableWaits, counters.tableWaitSeconds]).toEqual([TABLE_READY, 0, 0]);
});

it('waits a tenth of a usual pass, then abandons the tables', () => {
  const { wait, counters } = waiter();
  wait.passTook(500);
  const tables = [pending(), pending()];
  wait.settle(tables);
  expect(tables.map(({ state }) => state)).toEqual([TABLE_ABANDONED, TABLE_ABANDONED]);
  expect(counters.tableWaits).toBe(1);
  expect(counters.tableWaitSeconds).toBeGreaterThanOrEqual(0.05);
  // Once passes are short, the wait is short too.
  for (let i = 0; i < 100; i++) wait.passTook(1);
  const before = counters.tableWaitSeconds;
  wait.settle([pending(), null]);
  expect(counters.tableWaitSeconds - before).toBeLessThan(0.04);
});

it('takes a table that is ready in time', async () => {
  const { wait, wakeUp } = waiter();
  wait.passTook(100_000);
  const table = pending();
  const worker = readyAfter(30, table, wakeUp);
  wait.settle([table, null]);
  expect(table.state).toBe(TABLE_READY);
  await worker.terminate();
});

it('waits without limit if tables route', async () => {
  const { wait, wakeUp, counters } = waiter();
  wait.passTook(1);
  const table = pending();
  const worker = readyAfter(80, table, wakeUp);
  wait.finish([table, null]);
  expect(table.state).toBe(TABLE_READY);
  expect(counters.tableWaitSeconds).toBeGreaterThan(0.05);
  await worker.terminate();
});
