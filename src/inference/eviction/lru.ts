import type { EvictionPolicy } from './policy.js';

/** Evicts the least recently used expert, which is the store's own order among equal numbers. */
export const lru: EvictionPolicy = {
  usesForecast: false,
  newestFirst: false,
  rank: ({ state }) => ({ before: new Float64Array(state.length), after: new Float64Array(state.length) }),
};
