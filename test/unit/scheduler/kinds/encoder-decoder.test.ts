import { afterEach, describe, expect, it, vi } from 'vitest';
import type { StepTables } from '../../../../src/predictor/step-tables.js';
import type { ItemWork } from '../../../../src/protocol/item-work.js';
import { planScoring } from '../../../../src/scheduler/scoring.js';
import { kindBench, tableOf } from './kind-bench.js';

const generate: ItemWork = { kind: 'generate', maxTokens: 3, logprobs: null, choices: [null] };
const score = (labels: number[][]): ItemWork => ({ kind: 'score', plan: planScoring(labels, 0, 1) });

afterEach(() => vi.useRealTimers());

describe('an encoder-decoder model', () => {
  it('plans a pass for those inputs of a batch that KV pages admit, and for their labels', () => {
    const { forecasts, hold, start } = kindBench({});
    const items = [
      { work: score([[5, 6], [7]]), tokens: [3, 4] },
      { work: generate, tokens: [5] },
      { work: score([[5, 6, 7], [8]]), tokens: [6, 7] },
      { work: generate, tokens: [2] },
    ];
    // The first item's labels take two rows, those of the third three.
    const held = hold(items, [tableOf([0, 1, 1, 2, 0, 3]), tableOf([3, 1, 0, 2, 2])]);
    for (const [from, to] of [
      [0, 2],
      [2, 3],
      [3, 4],
    ])
      start(held.slice(from, to));
    const planned = forecasts.map(({ own, behind, predicted }) => {
      const needs = [own, behind].map((visits) => visits.map(({ layer, need }) => [layer, ...need]));
      return [...needs, [...(predicted?.rows ?? [])].map((row) => predicted!.table.experts[row])];
    });
    expect(planned).toEqual([
      [[[0, 1, 1, 0, 0]], [[1, 0, 1, 0, 1]], [0, 1, 1]],
      [[[1, 0, 1, 0, 1]], [], [3, 1]],
      [[[0, 1, 0, 1, 0]], [[1, 1, 0, 1, 0]], [2, 0]],
      [[[1, 1, 0, 1, 0]], [], [0, 2, 2]],
      [[[0, 0, 0, 0, 1]], [], [3]],
    ]);
  });

  it('tells step tables how long the passes of a step take, without the building of their table', () => {
    const took: number[] = [];
    const stepTables = {
      paused: false,
      begin: () => {},
      step: () => {
        vi.advanceTimersByTime(50);
        return null;
      },
      stepTook: (ms: number) => took.push(ms),
    } as unknown as StepTables;
    const { engine, kind, hold, start } = kindBench({ stepTables });
    start(hold([{ work: generate, tokens: [5] }]));
    vi.useFakeTimers({ toFake: ['hrtime'] });
    engine.beforeRun = () => vi.advanceTimersByTime(7);
    kind.step();
    expect(took.map(Math.round)).toEqual([7]);
  });

  it('takes the whole tables where all inputs of a batch start together', () => {
    const { forecasts, hold, start } = kindBench({});
    const tables = [tableOf([0, 1, 2]), tableOf([3, 1, 0, 2])];
    const items = [[3, 4], [5]].map((tokens) => ({ work: score([[5, 6], [7]]), tokens }));
    start(hold(items, tables));
    expect(forecasts.map(({ predicted }) => predicted!.table)).toEqual(tables);
    for (const [i, { predicted }] of forecasts.entries()) expect(predicted!.table).toBe(tables[i]);
  });
});
