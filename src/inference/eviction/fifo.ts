import { loadTimes } from './load-times.js';
import type { EvictionPolicy } from './policy.js';

/** Evicts the expert that was loaded longest ago: the policy of the SiDA paper. */
export const fifo: EvictionPolicy = {
  usesForecast: false,
  newestFirst: false,
  rank: (residency) => {
    const ranks = loadTimes(residency);
    for (const numbers of [ranks.before, ranks.after]) {
      for (let id = 0; id < numbers.length; id++) numbers[id] = -numbers[id]!;
    }
    return ranks;
  },
};
