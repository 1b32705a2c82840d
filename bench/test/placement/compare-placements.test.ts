// From a recorded trace to loads of devices.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { comparePlacements } from '../../src/placement/compare-placements.js';
import { deviceLoad } from '../../src/placement/device-load.js';
import { loadMatrix } from '../../src/placement/load-matrix.js';
import { placeGreedily } from '../../src/placement/place-experts.js';
import type { RecordedPass, RoutingTrace } from '../../src/replay/routing-trace.js';
import { singles, traceOf } from '../replay/small-traces.js';
import { anyTask, rows } from './loads.js';

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

  it('lies between an even share and all', () => {
    fc.assert(
      fc.property(anyTask, ({ loads, devices }) => {
        const { maxLoad, averageMaxLoad } = deviceLoad(placeGreedily(loads, devices), devices, loads);
        expect(averageMaxLoad).toBeGreaterThanOrEqual(1 / devices - 1e-9);
        expect(maxLoad).toBeGreaterThanOrEqual(averageMaxLoad - 1e-9);
        expect(maxLoad).toBeLessThanOrEqual(1 + 1e-9);
      }),
    );
  });
});

describe('comparing placements', () => {
  const options = { devices: [2], learn: 0.5, batchTokens: 2 };
  const of = (trace: RoutingTrace) =>
    Object.fromEntries(comparePlacements(trace, options).strategies.map((own) => [own.strategy, own]));

  it('learns from the first part alone', () => {
    const loads = (ids: number[]) => {
      const { index, greedy, hindsight } = of(singles(ids, 4));
      return [index, greedy, hindsight].map((own) => own!.maxLoad);
    };
    expect(loads([0, 1, 0, 1, 0, 1, 0, 1])).toEqual([1, 0.5, 0.5]);
    // History parts 0 and 2, and 1 comes beside 0.
    expect(loads([0, 2, 0, 2, 0, 1, 0, 1])).toEqual([1, 1, 0.5]);
  });

  it('tells layers apart, and sums them up', () => {
    // The first layer is even, all of the second goes to one expert.
    const report = comparePlacements(
      traceOf(
        [0, 1, 0, 1, 0, 1, 0, 1].map((id) => [[id], [2]]),
        4,
      ),
      options,
    );
    expect(report).toMatchObject({
      layers: 2,
      experts: 4,
      learned: 4,
      measured: 4,
      joined: { least: 2, most: 2 },
    });
    const greedy = report.strategies.find(({ strategy }) => strategy === 'greedy')!;
    expect(greedy).toMatchObject({ devices: 2, maxLoad: 1, meanMaxLoad: 0.75, averageMaxLoad: 0.75 });
    expect(greedy.layers.map(({ maxLoad }) => maxLoad)).toEqual([0.5, 1]);
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
