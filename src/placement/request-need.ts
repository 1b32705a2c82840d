import type { ExpectedVisit } from '../inference/residency-planner.js';

/**
 * (experts of the model) by flat id, chance that a request needs the expert at all: 1 − Π (1 − chance) over the turns that its
 * tables foretell (`visitsOf`). Null where they foretell nothing.
 */
export function requestNeed(visits: readonly ExpectedVisit[], experts: number): Float64Array | null {
  if (visits.length === 0) return null;
  const need = new Float64Array(experts);
  for (const { firstId, need: own } of visits) {
    for (const [index, chance] of own.entries()) {
      need[firstId + index]! += (1 - need[firstId + index]!) * chance;
    }
  }
  return need;
}
