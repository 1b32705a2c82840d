import type { Residency } from '../../native/addon-types.js';
import type { EvictionRanks } from './policy.js';

/** Later than every load there was. */
const NOW = 2 ** 39;

/** When each expert was loaded; one that is absent will have been loaded by the pass once it is used. */
export function loadTimes({ state, loadedAt }: Residency): EvictionRanks {
  const after = Float64Array.from(loadedAt);
  for (let id = 0; id < after.length; id++) if (state[id] === 0) after[id] = NOW;
  return { before: Float64Array.from(loadedAt), after };
}
