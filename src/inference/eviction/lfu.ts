import type { Residency } from '../../native/addon-types.js';
import { rankByKey } from './rank.js';

/** Needed by the fewest passes first. */
export function lfu(residency: Residency): Uint32Array {
  return rankByKey(residency, (id) => residency.uses[id]!);
}
