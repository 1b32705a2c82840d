import type { EvictionPolicy } from './policy.js';

/** Least recently used first: what the store does with equal numbers. */
export const lru: EvictionPolicy = {
  usesForecast: false,
  newestFirst: false,
  rank: ({ state }) => ({ before: new Float64Array(state.length), after: new Float64Array(state.length) }),
};
