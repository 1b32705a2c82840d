/** The chance that a batch needs an expert, from what a table says of its tokens. */
import { type HashTable, NO_EXPERT, TABLE_EXACT } from './hash-table.js';

/**
 * Overwrites `need`: 1 - Π (1 - p) over the tokens, p being the chance that the token goes to the expert. An exact
 * table's first experts are certain. Otherwise p ∝ α^sharpness over all experts of the layer, those that are not named
 * sharing what is left: a router's probabilities say how it weighs an expert, not how sure it is to take it.
 */
export function fillNeed(table: HashTable, sharpness: number, fromLayer = 0): void {
  const { layers, tokens, k, expertsPerLayer, experts, alpha, need } = table;
  if (table.kind === TABLE_EXACT) {
    need.fill(0, fromLayer * expertsPerLayer);
    for (let layer = fromLayer; layer < layers; layer++) {
      for (let token = 0; token < tokens; token++) {
        const expert = experts[(layer * tokens + token) * k]!;
        if (expert !== NO_EXPERT) need[layer * expertsPerLayer + expert] = 1;
      }
    }
    return;
  }
  const p = new Float64Array(k);
  for (let layer = fromLayer; layer < layers; layer++) {
    const row = need.subarray(layer * expertsPerLayer, (layer + 1) * expertsPerLayer);
    row.fill(1);
    for (let token = 0; token < tokens; token++) {
      const at = (layer * tokens + token) * k;
      let named = 0;
      let rest = 1;
      let sum = 0;
      for (; named < k && experts[at + named] !== NO_EXPERT; named++) {
        rest -= alpha[at + named]!;
        p[named] = alpha[at + named]! ** sharpness;
        sum += p[named]!;
      }
      const others = expertsPerLayer - named;
      if (others > 0 && rest > 0) sum += others * (rest / others) ** sharpness;
      if (sum <= 0) continue;
      for (let i = 0; i < named; i++) row[experts[at + i]!]! *= 1 - p[i]! / sum;
    }
    for (let e = 0; e < expertsPerLayer; e++) row[e] = 1 - row[e]!;
  }
}
