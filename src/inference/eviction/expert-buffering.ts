import { loadTimes } from './load-times.js';
import type { EvictionPolicy } from './policy.js';

/** Larger than any load time of `loadTimes`. */
const INACTIVE = 2 ** 40;

/**
 * Expert Buffering ("Towards MoE Deployment", 2023): evicts experts that the running pass has not used, then the
 * newest.
 */
export const expertBuffering: EvictionPolicy = {
  usesForecast: false,
  newestFirst: true,
  rank: (residency) => {
    const { before, after } = loadTimes(residency);
    for (let id = 0; id < before.length; id++) before[id]! += INACTIVE;
    return { before, after };
  },
};
