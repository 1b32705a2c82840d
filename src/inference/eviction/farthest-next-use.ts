import type { EvictionPolicy } from './policy.js';

/**
 * Evicts the expert whose next use is farthest: Belady's rule over the known tables. Beyond them, the time to an
 * expert's next use is estimated as the mean number of visits between its uses so far.
 */
export const farthestNextUse: EvictionPolicy = {
  usesForecast: true,
  newestFirst: false,
  rank: ({ uses, visits }) => {
    const before = new Float64Array(uses.length);
    const after = new Float64Array(uses.length);
    for (let id = 0; id < uses.length; id++) {
      before[id] = (visits + 1) / (uses[id]! + 1);
      after[id] = (visits + 2) / (uses[id]! + 2);
    }
    return { before, after };
  },
};
