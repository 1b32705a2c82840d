import { describe, expect, it } from 'vitest';
import { streamingPlans } from '../../../src/bench/layer-streaming.js';
import { StoreSimulation } from '../../../src/evaluation/store-simulation.js';

/** Two layers of the encoder and one of the decoder. */
const LAYERS = 3;
const EXPERTS = 4;
const TOTAL = LAYERS * EXPERTS;
const PLANS = streamingPlans(LAYERS, EXPERTS);

/** Loads of `rounds` encode and decode passes in which each layer takes all its experts. */
function loadsOf(slots: number, rounds: number): number {
  const store = new StoreSimulation(TOTAL, slots);
  for (let round = 0; round < rounds; round++) {
    for (const pass of [[0, 1], [2]]) {
      store.startPass(PLANS[pass[0]!]!);
      for (const layer of pass) {
        store.updatePlan(PLANS[layer]!);
        store.visit(Array.from({ length: EXPERTS }, (_, i) => layer * EXPERTS + i));
      }
    }
  }
  return store.loads;
}

describe('streamingPlans', () => {
  it('ask for the layers in the order of their turns, from the current one on', () => {
    expect([...PLANS[0]!.loads]).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    expect([...PLANS[2]!.loads]).toEqual([8, 9, 10, 11, 0, 1, 2, 3, 4, 5, 6, 7]);
  });

  it('let go first what is used last', () => {
    const { keys, keysAfter } = PLANS[1]!;
    const ofLayer = (values: Float64Array) => [0, 1, 2].map((layer) => values[layer * EXPERTS]);
    expect(ofLayer(keys)).toEqual([2, 0, 1]);
    expect(ofLayer(keysAfter)).toEqual([2, 3, 1]);
  });

  it('move nothing twice where all layers fit', () => {
    expect(loadsOf(TOTAL, 5)).toBe(TOTAL);
  });

  it.each([1, 2, 4, 6, 9, 11])('move with %i slots at most each expert once a round', (slots) => {
    const rounds = 20;
    const moved = (loadsOf(slots, rounds + 1) - loadsOf(slots, 1)) / rounds;
    expect(moved).toBeGreaterThanOrEqual(TOTAL - slots);
    expect(moved).toBeLessThanOrEqual(TOTAL);
  });
});
