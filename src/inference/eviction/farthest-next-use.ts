import type { EvictionPolicy } from './policy.js';

/**
 * Needed last first: Belady's rule over the tables at hand. Beyond them an expert is expected back after as many visits
 * of layers as lay between its uses so far.
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
