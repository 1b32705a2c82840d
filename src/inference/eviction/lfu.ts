import type { EvictionPolicy } from './policy.js';

/** Evicts the expert that the fewest passes have needed. */
export const lfu: EvictionPolicy = {
  usesForecast: false,
  newestFirst: false,
  rank: ({ uses }) => {
    const before = Float64Array.from(uses);
    const after = Float64Array.from(uses);
    for (let id = 0; id < uses.length; id++) {
      before[id] = -uses[id]!;
      after[id] = -uses[id]! - 1;
    }
    return { before, after };
  },
};
