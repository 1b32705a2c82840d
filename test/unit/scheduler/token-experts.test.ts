import { expect, it } from 'vitest';
import { tableRows } from '../../../src/forecast/pass-forecast.js';
import { NO_EXPERT, type RunResult } from '../../../src/native/addon-types.js';
import { createHashTable, TABLE_READY } from '../../../src/protocol/hash-table.js';
import { tokenExperts } from '../../../src/scheduler/token-experts.js';

const NAMES = ['encoder.1', 'decoder.1', 'decoder.3'];
const NONE = NO_EXPERT;
/** A pass of 2 layers over 3 tokens, with 2 experts each. */
const result = {
  layers: Int32Array.of(1, 2),
  dispatch: Uint16Array.from([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, NONE]),
} as RunResult;

it('names the experts of one token by layer, without those that it was over the capacity of', () => {
  expect(tokenExperts(result, { row: 2, tokens: 3 }, { predicted: null }, NAMES)).toEqual([
    { layer: 'decoder.1', chosen: [4, 5], predicted: null },
    { layer: 'decoder.3', chosen: [10], predicted: null },
  ]);
});

it('names as many of its row in the table', () => {
  const table = createHashTable({ batchId: 1, layers: 2, tokens: 2, k: 3, expertsPerLayer: 12 });
  table.experts.set([NONE, NONE, NONE, 1, 2, 3, NONE, NONE, NONE, 4, 5, 6]);
  table.settle(TABLE_READY);
  const predicted = tableRows(table, [1, 1, 0]);
  const names = (row: number) =>
    tokenExperts(result, { row, tokens: 3 }, { predicted }, NAMES).map((layer) => layer.predicted);
  expect(names(1)).toEqual([
    [1, 2],
    [4, 5],
  ]);
  // No table describes this token.
  expect(names(2)).toEqual([null, null]);
});
