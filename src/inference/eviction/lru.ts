import type { EvictionPolicy } from './index.js';

/** Least recently used first: what the store does with equal numbers. */
export const lru: EvictionPolicy = {
  foresight: false,
  newestFirst: false,
  rank: ({ state }) => ({ before: new Float64Array(state.length), after: new Float64Array(state.length) }),
};
