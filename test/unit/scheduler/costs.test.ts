import { expect, it } from 'vitest';
import { tableRows } from '../../../src/forecast/pass-forecast.js';
import { type NativeBatch, NO_EXPERT, type RunResult } from '../../../src/native/addon-types.js';
import { createHashTable, TABLE_READY } from '../../../src/protocol/hash-table.js';
import { PredictorHits } from '../../../src/scheduler/costs.js';

const EXPERTS = 6;

function table(tokens: number, named: number[]) {
  const k = named.length / tokens;
  const made = createHashTable({
    batchId: 1,
    layers: 1,
    tokens,
    k,
    expertsPerLayer: EXPERTS,
  });
  made.experts.set(named);
  made.settle(TABLE_READY);
  return made;
}

/** A pass of one layer, number 2 of the model, with the given dispatch. */
function ran(dispatch: number[], offsets: number[]): { result: RunResult; batch: NativeBatch } {
  const found = new Uint8Array(EXPERTS);
  for (const expert of dispatch) if (expert !== NO_EXPERT) found[expert] = 1;
  const result = { layers: Int32Array.of(2), dispatch: Uint16Array.from(dispatch), found } as RunResult;
  const batch: NativeBatch = {
    stack: 0,
    sequences: Int32Array.from(offsets.slice(1), (_, i) => i),
    offsets: Int32Array.from(offsets),
    tokens: new Int32Array(offsets.at(-1)!),
  };
  return { result, batch };
}

it('counts hits of each sequence by the rank in the table, without over-capacity tokens', () => {
  const hits = new PredictorHits(1);
  const named = [0, 1, 2, 3, 5, 4, 3, 2, 1, 0, 2, 3, 4, 5, 0, 1];
  // The pass has the table's tokens in the order 3, 0, 1, 2. Their experts rank first, third and fourth, and the last
  // token is over capacity.
  const predicted = tableRows(table(4, named), [3, 0, 1, 2]);
  const { result, batch } = ran([4, 2, 2, NO_EXPERT], [0, 1, 4]);
  const known = { predicted, routingK: 0 };
  expect(hits.count(result, batch, known)).toEqual([
    { predicted: 1, narrow: 1, wide: 1 },
    { predicted: 2, narrow: 0, wide: 1 },
  ]);
  hits.count(result, batch, known);
  expect(hits.total).toEqual({ predicted: 6, narrow: 2, wide: 4 });
});

it('looks for each of k chosen experts among the first k and 2k entries of the table', () => {
  const hits = new PredictorHits(2);
  const predicted = tableRows(table(2, [0, 1, 2, 3, 5, 4, 3, 2]), [0, 1]);
  // Ranks are 1 and 2, then none; the last token is over capacity.
  const { result, batch } = ran([1, 2, 0, NO_EXPERT], [0, 2]);
  expect(hits.count(result, batch, { predicted, routingK: 0 })).toEqual([
    { predicted: 3, narrow: 1, wide: 2 },
  ]);
});

it('leaves out tokens for which the table lists no expert', () => {
  const hits = new PredictorHits(1);
  const predicted = tableRows(table(2, [NO_EXPERT, NO_EXPERT, 4, NO_EXPERT]), [0, 1]);
  const { result, batch } = ran([4, 4], [0, 1, 2]);
  expect(hits.count(result, batch, { predicted, routingK: 0 })).toEqual([
    { predicted: 0, narrow: 0, wide: 0 },
    { predicted: 1, narrow: 1, wide: 1 },
  ]);
});

it('counts nothing for a table that routes, nor a missing one', () => {
  const hits = new PredictorHits(1);
  const { result, batch } = ran([4], [0, 1]);
  const predicted = tableRows(table(1, [4]), [0]);
  expect(hits.count(result, batch, { predicted, routingK: 1 })).toBeNull();
  expect(hits.count(result, batch, { predicted: null, routingK: 0 })).toBeNull();
  expect(hits.total.predicted).toBe(0);
});
