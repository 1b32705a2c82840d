/** The eviction policies by name. */
import type { EvictionPolicyName } from '../../config/engine-options.js';
import { ABSENT, type Residency } from '../../native/addon-types.js';
import { farthestNextUse } from './farthest-next-use.js';
import type { EvictionPolicy, EvictionRanks } from './policy.js';

/** Later than any load so far. */
const NOW = 2 ** 39;
/** Larger than any load time. */
const INACTIVE = 2 ** 40;

export const EVICTION_POLICIES: Record<EvictionPolicyName, EvictionPolicy> = {
  'farthest-next-use': farthestNextUse,
  /** Evicts the least recently used expert, which is the store's own order among equal numbers. */
  lru: {
    usesForecast: false,
    newestFirst: false,
    rank: ({ state }) => ({ before: new Float64Array(state.length), after: new Float64Array(state.length) }),
  },
  /** Evicts the expert that was loaded longest ago: the policy of the SiDA paper. */
  fifo: {
    usesForecast: false,
    newestFirst: false,
    rank: (residency) => {
      const { before, after } = loadTimes(residency);
      return { before: before.map((time) => -time), after: after.map((time) => -time) };
    },
  },
  /** Evicts the expert that the fewest passes have needed. */
  lfu: {
    usesForecast: false,
    newestFirst: false,
    rank: ({ uses }) => ({
      before: Float64Array.from(uses, (count) => -count),
      after: Float64Array.from(uses, (count) => -count - 1),
    }),
  },
  /**
   * Expert Buffering ("Towards MoE Deployment", 2023): evicts experts that the running pass has not used, the last
   * loaded first, and then the others in the same order.
   */
  'expert-buffering': {
    usesForecast: false,
    newestFirst: true,
    rank: (residency) => {
      const { before, after } = loadTimes(residency);
      return { before: before.map((time) => time + INACTIVE), after };
    },
  },
};

/**
 * When each expert was loaded. After its use, an absent expert counts as loaded now, because the pass must load it.
 */
function loadTimes({ state, loadedAt }: Residency): EvictionRanks {
  const before = Float64Array.from(loadedAt);
  return { before, after: before.map((time, id) => (state[id] === ABSENT ? NOW : time)) };
}
