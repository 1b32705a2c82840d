import { expect, it } from 'vitest';
import { TableWorth } from '../../../src/forecast/table-wait.js';

it('waits for a table for a tenth of the usual pass time, initially 100 ms', () => {
  const worth = new TableWorth(() => 0);
  expect(worth.waitMs).toBeCloseTo(10, 9);
  worth.passTook(200);
  expect(worth.waitMs).toBeCloseTo(20, 9);
  worth.passTook(100);
  expect(worth.waitMs).toBeCloseTo(19, 9);
});

it('pauses only after building took more than a fifth of the usual pass time', () => {
  const worth = new TableWorth(() => 0);
  worth.passTook(50);
  for (let i = 0; i < 100; i++) worth.delayedPass(10);
  expect(worth.paused).toBe(false);
  for (let i = 0; i < 8; i++) worth.delayedPass(10.5);
  expect(worth.paused).toBe(true);
});

it('bounds the share of time that lost tables take', () => {
  for (const tookMs of [0.1, 3, 40, 7000]) {
    let now = 0;
    let spent = 0;
    const worth = new TableWorth(() => now);
    for (let i = 0; i < 100_000; i++) {
      if (worth.paused) {
        now += tookMs;
        continue;
      }
      now += tookMs;
      spent += tookMs;
      worth.lost(tookMs);
    }
    // The first table is built before the first pause.
    expect(spent / now, `${tookMs} ms a table`).toBeLessThan(1 / 17 + 1e-4);
  }
});
