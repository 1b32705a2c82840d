// What the inference thread reads out of hash tables: visits, rows, routing, and what refinement changes.
import { describe, expect, it } from 'vitest';
import { openTables, visitsOf } from '../../../src/inference/expected-visits.js';
import {
  type Foreknowledge,
  NOTHING_KNOWN,
  routingOf,
  tableRows,
} from '../../../src/inference/foreknowledge.js';
import { refinement } from '../../../src/inference/refinement.js';
import type { ResidencyPlan } from '../../../src/native/addon-types.js';
import { fillNeed } from '../../../src/predictor/expert-need.js';
import type { TableRefiner } from '../../../src/predictor/hash-function.js';
import {
  createHashTable,
  type HashTable,
  NO_EXPERT,
  TABLE_FAILED,
  TABLE_PREDICTED,
  TABLE_READY,
} from '../../../src/predictor/hash-table.js';

const EXPERTS = 4;

/** `named`: (layers, tokens, 2). */
function tableOf(layers: number, tokens: number, named: number[], ready = true): HashTable {
  const shape = {
    batchId: 1,
    layers,
    tokens,
    k: 2,
    kind: TABLE_PREDICTED,
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

  it('are none without a table, and none of one that is pending or failed', () => {
    const failed = tableOf(2, 3, NAMED, false);
    expect([visitsOf(null, 0), visitsOf(failed, 0)]).toEqual([[], []]);
    failed.settle(TABLE_FAILED);
    expect(visitsOf(failed, 0)).toEqual([]);
    expect(openTables(null)).toEqual({ encoder: null, decoder: null });
  });
});

describe('foreknowledge', () => {
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

  it('says nothing by a table that is not ready', () => {
    expect([tableRows(null, [0]), tableRows(tableOf(1, 3, NAMED.slice(0, 6), false), [0])]).toEqual([
      null,
      null,
    ]);
  });
});

describe('refinement', () => {
  const plan = {} as ResidencyPlan;
  const known = (table: HashTable, rows: number[], routingK = 0): Foreknowledge => {
    return { own: visitsOf(table, 0), behind: [], predicted: tableRows(table, rows), routingK };
  };

  it('tells the refiner the true experts of each table row, and plans with the needs that follow', () => {
    const table = tableOf(2, 3, NAMED);
    const told: unknown[] = [];
    const refiner: TableRefiner = {
      refine: (side, layer, routed, layers, tokens, k, experts, _, chance) => {
        told.push([side, layer, [...routed], layers, tokens, k]);
        experts.fill(2, tokens * k);
        chance.fill(0.75, tokens * k);
      },
    };
    let planned: Foreknowledge | undefined;
    const hook = refinement(refiner, 'encoder', known(table, [2, 0]), (now) => {
      planned = now;
      return plan;
    })!;
    expect(hook(0, Uint16Array.of(3, NO_EXPERT))).toBe(plan);
    expect(told).toEqual([['encoder', 0, [NO_EXPERT, NO_EXPERT, 3], 2, 3, 2]]);
    expect([...planned!.own[0]!.need]).toEqual([0, 0, 0, 1]);
    expect([...planned!.own[0]!.prefetch!]).toEqual([0, 0, 0, 0.5]);
    expect(planned!.own[1]!.need[2]).toBeCloseTo(1 - 0.25 ** 6, 6);
    expect(hook(1, Uint16Array.of(0, 0))).toBeNull();
    expect(told).toHaveLength(1);
  });

  it('expects no layer that has run again, and leaves what the table foretold of it', () => {
    const table = tableOf(3, 1, [0, 1, 2, 3, 1, 2]);
    const own: number[][][] = [];
    const hook = refinement({ refine: () => {} }, 'encoder', known(table, [0]), (now) => {
      own.push(now.own.map(({ need }) => [...need]));
      return plan;
    })!;
    hook(0, Uint16Array.of(0));
    hook(1, Uint16Array.of(0));
    expect(own[1]).toEqual([
      [0, 0, 0, 0],
      [1, 0, 0, 0],
      [0, 0.5, 0.5, 0],
    ]);
    expect([...table.need.subarray(0, 8)]).toEqual([0.5, 0.5, 0, 0, 0, 0, 0.5, 0.5]);
  });

  it('has nothing to do without a refiner, a table, a further layer, or where tables route', () => {
    const refiner: TableRefiner = { refine: () => {} };
    const table = tableOf(2, 3, NAMED);
    const none = [
      refinement(null, 'encoder', known(table, [0]), () => plan),
      refinement(refiner, 'encoder', NOTHING_KNOWN, () => plan),
      refinement(refiner, 'decoder', known(tableOf(1, 3, NAMED.slice(0, 6)), [0]), () => plan),
      refinement(refiner, 'encoder', known(table, [0], 1), () => plan),
    ];
    expect(none).toEqual([undefined, undefined, undefined, undefined]);
  });
});
