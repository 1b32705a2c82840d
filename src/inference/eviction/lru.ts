import type { Residency } from '../../native/addon-types.js';
import { rankByKey } from './rank.js';

/** Least recently used first. */
export function lru(residency: Residency): Uint32Array {
  return rankByKey(residency, (id) => residency.lastUse[id]!);
}
