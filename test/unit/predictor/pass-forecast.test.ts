// Visits, rows and routing that the inference thread reads from hash tables.

import { describe, expect, it } from 'vitest';
import { NO_EXPERT } from '../../../src/native/addon-types.js';
import { openTables, visitsOf } from '../../../src/predictor/expected-visits.js';
import { fillNeed } from '../../../src/predictor/expert-need.js';
import { routingOf, tableRows } from '../../../src/predictor/pass-forecast.js';
import {
  createHashTable,
  type HashTable,
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

describe('expected visits', () => {
  it('are the layers of a ready table with their flat ids and needs, not copied', () => {
    const table = tableOf(2, 3, NAMED);
    const visits = visitsOf(table, 5);
    expect(visits.map(({ firstId }) => firstId)).toEqual([20, 24]);
    expect([...visits[0]!.need]).toEqual([0.5, 0.75, 0.5, 0.5]);
    table.need[0] = 0.25;
    expect(visits[0]!.need[0]).toBe(0.25);
  });

  it('are empty without a table and for a table that is pending or failed', () => {
    const failed = tableOf(2, 3, NAMED, false);
    expect([visitsOf(null, 0), visitsOf(failed, 0)]).toEqual([[], []]);
    failed.settle(TABLE_FAILED);
    expect(visitsOf(failed, 0)).toEqual([]);
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
