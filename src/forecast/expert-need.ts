/** Computes the probability that a batch needs an expert from the per-token chances in its table. */
import { NO_EXPERT } from '../native/addon-types.js';
import type { HashTable } from '../protocol/hash-table.js';

/** Overwrites `need`. `routingK` is the number of experts that the table routes each token to; 0 if routers do. */
export function fillNeed(table: HashTable, routingK = 0): void {
  if (routingK > 0) fillRoutedNeed(table, routingK);
  else fillPredictedNeed(table);
}

/** 1 - Π (1 - chance) over the tokens that list the expert, or 0 if no token lists it. */
function fillPredictedNeed({ layers, tokens, k, expertsPerLayer, experts, chance, need }: HashTable): void {
  // Use doubles: experts differ only by products of many small chances.
  const unneeded = new Float64Array(expertsPerLayer);
  for (let layer = 0; layer < layers; layer++) {
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

/** 1 for each expert among a token's first `routingK`, 0 for all others. */
function fillRoutedNeed(table: HashTable, routingK: number): void {
  const { layers, tokens, k, expertsPerLayer, experts, need } = table;
  need.fill(0);
  for (let row = 0; row < layers * tokens; row++) {
    const first = Math.floor(row / tokens) * expertsPerLayer;
    for (let i = row * k; i < row * k + Math.min(routingK, k); i++) {
      if (experts[i] !== NO_EXPERT) need[first + experts[i]!] = 1;
    }
  }
}
