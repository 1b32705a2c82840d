import { ABSENT, type Residency } from '../../native/addon-types.js';
import type { EvictionRanks } from './policy.js';

/** Later than any load so far. */
const NOW = 2 ** 39;

/**
 * When each expert was loaded. After its use, an absent expert counts as loaded now, because the pass must load it.
 */
export function loadTimes({ state, loadedAt }: Residency): EvictionRanks {
  const after = Float64Array.from(loadedAt);
  for (let id = 0; id < after.length; id++) if (state[id] === ABSENT) after[id] = NOW;
  return { before: Float64Array.from(loadedAt), after };
}
