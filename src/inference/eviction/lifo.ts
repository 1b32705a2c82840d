import type { Residency } from '../../native/addon-types.js';
import { rankByKey } from './rank.js';

/** Loaded last first: keeps what came first, which suits a cyclic walk over more experts than slots. */
export function lifo(residency: Residency): Uint32Array {
  return rankByKey(residency, (id) => -residency.loadedAt[id]!);
}
