import { expect, it } from 'vitest';
import { Belady } from '../../../src/inference/belady.js';
import { RoutingQuality } from '../../../src/inference/routing-quality.js';
import { type NativeBatch, NO_EXPERT, type RunResult } from '../../../src/native/addon-types.js';
import { tableRows } from '../../../src/predictor/pass-forecast.js';
import { createHashTable, TABLE_READY } from '../../../src/protocol/hash-table.js';

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

function quality(explained: number[] = [], topK = 1) {
  const belady = new Belady(3 * EXPERTS, 2, 0);
  const judge = new RoutingQuality({
    expertsPerLayer: EXPERTS,
    topK,
    belady,
    explains: (job) => explained.includes(job),
  });
  return { belady, judge };
}

it('counts hits of each sequence by the rank in the table, without over-capacity tokens', () => {
  const { judge } = quality();
  const named = [0, 1, 2, 3, 5, 4, 3, 2, 1, 0, 2, 3, 4, 5, 0, 1];
  // The pass has the table's tokens in the order 3, 0, 1, 2. Their experts rank first, third and fourth, and the last
  // token is over capacity.
  const predicted = tableRows(table(4, named), [3, 0, 1, 2]);
  const { result, batch } = ran([4, 2, 2, NO_EXPERT], [0, 1, 4]);
  const known = { predicted, routingK: 0 };
  expect(judge.judge(result, [7, 8], batch, known).hits).toEqual([
    { predicted: 1, narrow: 1, wide: 1 },
    { predicted: 2, narrow: 0, wide: 1 },
  ]);
  judge.judge(result, [7, 8], batch, known);
  expect(judge.total).toEqual({ predicted: 6, narrow: 2, wide: 4 });
});

it('looks for each of k chosen experts among the first k and 2k entries of the table', () => {
  const { judge } = quality([], 2);
  const predicted = tableRows(table(2, [0, 1, 2, 3, 5, 4, 3, 2]), [0, 1]);
  // Ranks are 1 and 2, then none; the last token is over capacity.
  const { result, batch } = ran([1, 2, 0, NO_EXPERT], [0, 2]);
  expect(judge.judge(result, [7], batch, { predicted, routingK: 0 }).hits).toEqual([
    { predicted: 3, narrow: 1, wide: 2 },
  ]);
});

it('leaves out tokens for which the table lists no expert', () => {
  const { judge } = quality();
  const predicted = tableRows(table(2, [NO_EXPERT, NO_EXPERT, 4, NO_EXPERT]), [0, 1]);
  const { result, batch } = ran([4, 4], [0, 1, 2]);
  expect(judge.judge(result, [1, 2], batch, { predicted, routingK: 0 }).hits).toEqual([
    { predicted: 0, narrow: 0, wide: 0 },
    { predicted: 1, narrow: 1, wide: 1 },
  ]);
});

it('does not judge a table that routes, nor a missing one', () => {
  const { judge } = quality();
  const { result, batch } = ran([4], [0, 1]);
  const predicted = tableRows(table(1, [4]), [0]);
  expect(judge.judge(result, [1], batch, { predicted, routingK: 1 }).hits).toBeNull();
  expect(judge.judge(result, [1], batch, { predicted: null, routingK: 0 }).hits).toBeNull();
  expect(judge.total.predicted).toBe(0);
});

it("passes needs to Belady's rule batch by batch, and returns its loads to a job that asks", () => {
  const { belady, judge } = quality([8]);
  const nothing = { predicted: null, routingK: 0 };
  const pass = (dispatch: number[], job: number) => {
    judge.nextBatch();
    const { result, batch } = ran(dispatch, [0, dispatch.length]);
    return judge.judge(result, [job], batch, nothing).beladyLoads;
  };
  expect(pass([0, 1], 7)).toBeNull();
  expect(pass([1, 2], 8)).toEqual(new Set([2 * EXPERTS + 2]));
  expect(pass([1, 2], 8)).toEqual(new Set());
  expect(belady.loads).toBe(3);
});
