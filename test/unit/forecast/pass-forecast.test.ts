// Visits, rows and routing that the inference thread reads from hash tables.

import { describe, expect, it } from 'vitest';
import { fillNeed } from '../../../src/forecast/expert-need.js';
import { needsOf, openTables, routingOf, tableRows } from '../../../src/forecast/pass-forecast.js';
import { NO_EXPERT } from '../../../src/native/addon-types.js';
import {
  createHashTable,
  type HashTable,
  openHashTable,
  TABLE_FAILED,
  TABLE_READY,
} from '../../../src/protocol/hash-table.js';

const EXPERTS = 4;

/** `named` holds the listed experts, (layers, tokens, 2). */
function tableOf(layers: number, tokens: number, named: number[], ready = true): HashTable {
  const shape = {
    batchId: 1,
    layers,
    tokens,
    k: 2,
    expertsPerLayer: EXPERTS,
  } as const;
  const table = createHashTable(shape);
  table.experts.set(named);
  named.forEach((expert, i) => {
    table.alpha[i] = i / 100;
    table.chance[i] = expert === NO_EXPERT ? 0 : 0.5;
  });
  fillNeed(table);
  if (ready) table.settle(TABLE_READY);
  return table;
}

const NAMED = [0, 1, 2, 3, 1, NO_EXPERT, 3, 2, 0, 3, 1, 2];

describe('the needs of a table', () => {
  it('are those of all its layers, not copied, and have one id however often it is opened', () => {
    const table = tableOf(2, 3, NAMED);
    const [needs] = needsOf(table, 5);
    expect(needs).toMatchObject({ layer: 5 });
    expect([...needs!.need.subarray(0, 4)]).toEqual([0.5, 0.75, 0.5, 0.5]);
    table.need[0] = 0.25;
    expect(needs!.need[0]).toBe(0.25);
    expect(needsOf(openHashTable(table.buffer), 5)[0]!.id).toBe(needs!.id);
    expect(needsOf(tableOf(2, 3, NAMED), 5)[0]!.id).not.toBe(needs!.id);
  });

  it('are empty without a table and for a table that is pending or failed', () => {
    const failed = tableOf(2, 3, NAMED, false);
    expect([needsOf(null, 0), needsOf(failed, 0)]).toEqual([[], []]);
    failed.settle(TABLE_FAILED);
    expect(needsOf(failed, 0)).toEqual([]);
    expect(openTables(null)).toEqual([]);
  });
});

describe('pass forecast', () => {
  it('picks the rows of a pass and the first k entries of each', () => {
    const predicted = tableRows(tableOf(2, 3, NAMED), [2, 0])!;
    expect(routingOf(predicted, 1)).toEqual({
      k: 1,
      experts: Uint16Array.of(1, 0, 1, 3),
      alpha: Float32Array.of(0.04, 0, 0.1, 0.06),
    });
    const both = routingOf(predicted, 3);
    expect(both.k).toBe(2);
    expect([...both.experts]).toEqual([1, NO_EXPERT, 0, 1, 1, 2, 3, 2]);
  });

  it('has no rows for a table that is not ready', () => {
    expect([tableRows(null, [0]), tableRows(tableOf(1, 3, NAMED.slice(0, 6), false), [0])]).toEqual([
      null,
      null,
    ]);
  });
});
