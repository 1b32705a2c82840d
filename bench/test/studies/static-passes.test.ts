import { describe, expect, it } from 'vitest';
import { type GatedBatch, staticPasses } from '../../src/studies/static-passes.js';

const layer = (dynamicMs: number, dynamicBytes: number, own: GatedBatch['static']): GatedBatch => ({
  ...{ tokens: 8, expertsUsed: 3, mostTokens: 4, dynamicMs, dynamicBytes },
  static: own,
});

describe('a pass with static gating', () => {
  const layers = [
    layer(2, 100, [
      { factor: 1, capacity: 2, ms: 5, bytes: 300, dropped: 0.25 },
      { factor: 0, capacity: 4, ms: 8, bytes: 600, dropped: 0 },
    ]),
    layer(3, 150, [
      { factor: 1, capacity: 2, ms: 4, bytes: 300, dropped: 0.5 },
      { factor: 0, capacity: 6, ms: 9, bytes: 900, dropped: 0 },
    ]),
  ];

  it('takes what every layer takes longer, and the memory of the layer that needs most', () => {
    expect(staticPasses({ ms: 20, bytes: 1000, tokens: 8 }, layers, 16)).toEqual([
      { factor: 1, ms: 20 + 3 + 1, bytes: 1000 + 200, maskBytes: 8 * 16 * 2 * 4, dropped: 0.375 },
      { factor: 0, ms: 20 + 6 + 6, bytes: 1000 + 750, maskBytes: 8 * 16 * 6 * 4, dropped: 0 },
    ]);
  });
});
