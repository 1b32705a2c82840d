import { describe, expect, it } from 'vitest';
import { loadAddon } from '../../../dist/native/addon.js';
import { firstExpertsOf } from '../../../dist/native/model-shape.js';
import { streamingPlan } from '../../src/systems/layer-streaming.js';

/** Two layers of the encoder and one of the decoder. */
const LAYERS = 3;
const EXPERTS = 4;
const TOTAL = LAYERS * EXPERTS;
const planFrom = (first: number) => streamingPlan(first, { firstExperts: firstExpertsOf(EXPERTS, LAYERS) });

/** Loads of `rounds` encode and decode passes in which each layer takes all its experts. */
function loadsOf(slots: number, rounds: number): number {
  const store = new (loadAddon().WeightlessStore)({
    layerExperts: new Uint32Array(LAYERS).fill(EXPERTS),
    slots,
    loadsInFlight: 4,
  });
  const calls = Array.from({ length: rounds }, () =>
    [[0, 1], [2]].flatMap((pass) => [
      store.startPass(planFrom(pass[0]!)),
      ...pass.map((layer) =>
        store.visit(Uint32Array.from({ length: EXPERTS }, (_, i) => layer * EXPERTS + i)),
      ),
    ]),
  ).flat();
  return calls.reduce((sum, loads) => sum + (loads?.demanded.length ?? 0) + (loads?.planned.length ?? 0), 0);
}

describe('streamingPlan', () => {
  it('asks for the layers in the order of their turns, from the first of the pass on', () => {
    expect([...planFrom(0).loads]).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    expect([...planFrom(2).loads]).toEqual([8, 9, 10, 11, 0, 1, 2, 3, 4, 5, 6, 7]);
  });

  it('moves nothing twice where all layers fit', () => {
    expect(loadsOf(TOTAL, 5)).toBe(TOTAL);
  });

  it.each([1, 2, 4, 6, 9, 11])('moves with %i slots at most each expert once a round', (slots) => {
    const rounds = 20;
    const moved = (loadsOf(slots, rounds + 1) - loadsOf(slots, 1)) / rounds;
    expect(moved).toBeGreaterThanOrEqual(TOTAL - slots);
    expect(moved).toBeLessThanOrEqual(TOTAL);
  });
});
