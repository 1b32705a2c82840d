import { describe, expect, it } from 'vitest';
import { NO_EXPERT } from '../../../src/native/addon-types.js';
import type { RoutingShape } from '../../../src/predictor/hash-function.js';
import { HitCounts } from '../../../src/predictor/hit-counts.js';
import { createHashTable } from '../../../src/protocol/hash-table.js';

const SHAPE: RoutingShape = {
  stacks: [
    { name: 'encoder', layers: 2, causal: false, crosses: false },
    { name: 'decoder', layers: 1, causal: true, crosses: true },
  ],
  experts: 8,
  firstExperts: [0, 8, 16, 24],
  topK: 1,
  normalized: false,
  vocab: 10,
};

/** A table of two layers and two tokens, with three entries each. */
function table() {
  const made = createHashTable({
    batchId: 0,
    layers: 2,
    tokens: 2,
    k: 3,
    expertsPerLayer: 8,
  });
  made.experts.set([1, 2, 3, 4, 5, 6, 1, 2, NO_EXPERT, 4, 5, 6]);
  made.alpha.set([0.5, 0.1, 0.1, 0.4, 0.1, 0.1, 0.5, 0.1, 0, 0.4, 0.1, 0.1]);
  return made;
}

const TRUTH = { experts: Uint16Array.of(1, 6, 2, 7), alpha: Float32Array.of(0.25, 0.5, 0.5, 0.5) };

describe('hit counts', () => {
  it('report ranks by layer, and the error of α when the first rank is right', () => {
    const counts = new HitCounts(SHAPE);
    counts.add(0, table(), TRUTH, 2);
    expect(counts.result().slice(0, 2)).toEqual([
      { tokens: 2, alpha: 0.375, hits: [0.5, 0.5, 1], alphaError: 0.25, unknown: 0 },
      { tokens: 2, alpha: 0.5, hits: [0, 0.5, 0.5], alphaError: null, unknown: 0 },
    ]);
  });

  it('report the shares of k choices within the top k and the top 2k', () => {
    const counts = new HitCounts({ ...SHAPE, topK: 2 });
    const wide = createHashTable({
      batchId: 0,
      layers: 2,
      tokens: 1,
      k: 4,
      expertsPerLayer: 8,
    });
    wide.experts.set([1, 2, 3, 4, 5, 6, 7, 0]);
    wide.alpha.fill(0.25);
    const alpha = Float32Array.of(0.5, 0.25, 0.5, 0.25);
    counts.add(0, wide, { experts: Uint16Array.of(1, 4, 7, 3), alpha }, 1);
    expect(counts.result().slice(0, 2)).toEqual([
      { tokens: 1, alpha: 0.5, hits: [0.5, 1], alphaError: 0.25, unknown: 0 },
      { tokens: 1, alpha: 0.5, hits: [0, 0.5], alphaError: null, unknown: 0 },
    ]);
  });

  it('count tokens without a forecast as misses', () => {
    const counts = new HitCounts(SHAPE);
    counts.add(0, table(), TRUTH, 2);
    counts.add(0, null, TRUTH, 2);
    expect(counts.result()[0]).toEqual({
      tokens: 4,
      alpha: 0.375,
      hits: [0.25, 0.25, 0.5],
      alphaError: 0.25,
      unknown: 2,
    });
  });
});
