/** The chance that a batch needs an expert, from what a table says of its tokens. */
import { type HashTable, NO_EXPERT } from './hash-table.js';

/**
 * Overwrites `need` from layer `fromLayer` on: 1 - Π (1 - chance) over the tokens that name the expert; 0 where none
 * does. `chance`, (layers, tokens, k), may be longer: that the entry's expert is the token's true one.
 */
export function fillNeed(
  { layers, tokens, k, expertsPerLayer, experts, need }: HashTable,
  chance: Float32Array,
  fromLayer = 0,
): void {
  // In doubles: the product of many small chances is all there is to tell them apart.
  const unneeded = new Float64Array(expertsPerLayer);
  for (let layer = fromLayer; layer < layers; layer++) {
    unneeded.fill(1);
    const end = (layer + 1) * tokens * k;
    for (let i = layer * tokens * k; i < end; i++) {
      const expert = experts[i]!;
      if (expert !== NO_EXPERT) unneeded[expert]! *= 1 - chance[i]!;
    }
    const row = layer * expertsPerLayer;
    for (let e = 0; e < expertsPerLayer; e++) need[row + e] = 1 - unneeded[e]!;
  }
}
