import type { Residency } from '../../native/addon-types.js';
import { rankByKey } from './rank.js';

/** Loaded longest ago first: the policy of the SiDA paper. */
export function fifo(residency: Residency): Uint32Array {
  return rankByKey(residency, (id) => residency.loadedAt[id]!);
}
