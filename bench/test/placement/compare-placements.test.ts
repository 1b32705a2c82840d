// From a recorded trace to loads of devices.
import { describe, expect, it } from 'vitest';
import { comparePlacements, deviceLoad } from '../../src/placement/compare-placements.js';
import { loadMatrix } from '../../src/placement/load-matrix.js';
import type { RecordedPass, RoutingTrace } from '../../src/replay/routing-trace.js';
import { singles, traceOf } from '../replay/small-traces.js';
import { rows } from './loads.js';

const pass = (tokens: number, visits: number[][], choices: number[][]): RecordedPass => ({
  phase: 'prefill',
  tokens,
  visits,
  choices,
});

describe('the load matrix', () => {
  const trace: RoutingTrace = {
    ...traceOf([[[0], [0]]], 3),
    batches: [
      { passes: [pass(4, [[0, 2], [3]], [[3, 1], [4]])] },
      { passes: [pass(1, [[1]], [[1]]), pass(1, [[1], [5]], [[1], [1]])] },
    ],
  };
  const matrix = (layer: number, batchTokens: number) =>
    loadMatrix(trace, trace.batches, layer, batchTokens).map((row) => [...row]);

  it('has the share of the choices that each expert got, a row a turn', () => {
    expect(matrix(0, 1)).toEqual([
      [0.75, 0, 0.25],
      [0, 1, 0],
      [0, 1, 0],
    ]);
    expect(matrix(1, 1)).toEqual([
      [1, 0, 0],
      [0, 0, 1],
    ]);
  });

  it('joins turns up to the tokens of a batch; the rest at the end is none', () => {
    expect(matrix(0, 2)).toEqual([
      [0.75, 0, 0.25],
      [0, 1, 0],
    ]);
    expect(matrix(0, 5)).toEqual([[3 / 5, 1 / 5, 1 / 5]]);
    expect(() => matrix(1, 6)).toThrow('Layer 1 has 5 tokens in one part of the trace, a batch has 6');
  });
});

describe('the load of devices', () => {
  it('is the largest share of all batches, and the mean of the largest share of each', () => {
    expect(deviceLoad([0, 0, 1, 1], 2, rows([0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.4, 0.3]))).toEqual({
      maxLoad: 0.7,
      averageMaxLoad: 0.7,
    });
    expect(deviceLoad([0, 1], 2, rows([1, 0], [0.5, 0.5]))).toEqual({ maxLoad: 1, averageMaxLoad: 0.75 });
  });
});

describe('comparing placements', () => {
  const options = { devices: [2], learn: 0.5, batchTokens: 2 };
  const of = (trace: RoutingTrace) =>
    Object.fromEntries(comparePlacements(trace, options).strategies.map((own) => [own.strategy, own]));

  it('learns from the first part alone', () => {
    const loads = (ids: number[]) => {
      const { index, greedy } = of(singles(ids, 4));
      return [index, greedy].map((own) => own!.maxLoad);
    };
    expect(loads([0, 1, 0, 1, 0, 1, 0, 1])).toEqual([1, 0.5]);
    // History parts 0 and 2, and 1 comes beside 0.
    expect(loads([0, 2, 0, 2, 0, 1, 0, 1])).toEqual([1, 1]);
  });

  it('is even with one device, and refuses more devices than experts', () => {
    const trace = singles([0, 1, 2, 3], 4);
    for (const { maxLoad } of comparePlacements(trace, { ...options, devices: [1] }).strategies) {
      expect(maxLoad).toBe(1);
    }
    expect(() => comparePlacements(trace, { ...options, devices: [5] })).toThrow(
      '5 devices cannot share the 4 experts of a layer',
    );
  });
});
