/** The eviction policies by name. */
import type { EvictionPolicyName } from '../../../src/native/addon-types.js';
import { ABSENT, type Residency } from '../../../src/native/addon-types.js';
import { farthestNextUse } from './farthest-next-use.js';
import type { EvictionPolicy } from './policy.js';

/** Later than any load so far. */
const NOW = 2 ** 39;
/** Larger than any load time. */
const INACTIVE = 2 ** 40;

export const EVICTION_POLICIES: Record<EvictionPolicyName, EvictionPolicy> = {
  'farthest-next-use': farthestNextUse,
  /** Evicts the least recently used expert, which is the store's own order among equal numbers. */
  lru: blind(() => [0, 0]),
  /** Evicts the expert that was loaded longest ago: the policy of the SiDA paper. */
  fifo: blind((residency, id) => [-residency.loadedAt[id]!, -loadedLater(residency, id)]),
  /** Evicts the expert that the fewest passes have needed. */
  lfu: blind(({ uses }, id) => [-uses[id]!, -uses[id]! - 1]),
  /**
   * Expert Buffering ("Towards MoE Deployment", 2023): evicts experts that the running pass has not used, the last
   * loaded first, and then the others in the same order.
   */
  'expert-buffering': blind(
    (residency, id) => [residency.loadedAt[id]! + INACTIVE, loadedLater(residency, id)],
    true,
  ),
};

/** A policy without a forecast. `numbersOf` gives an expert's numbers before and after the pass has used it. */
function blind(
  numbersOf: (residency: Residency, id: number) => [before: number, after: number],
  newestFirst = false,
): EvictionPolicy {
  return {
    usesForecast: false,
    newestFirst,
    rank: (residency, _, { before, after, unneeded }) => {
      for (let id = 0; id < before.length; id++) {
        const [now, used] = numbersOf(residency, id);
        before[id] = unneeded[id] = now;
        after[id] = used;
      }
    },
  };
}

/** After its use, an absent expert counts as loaded now, because the pass must load it. */
function loadedLater({ state, loadedAt }: Residency, id: number): number {
  return state[id] === ABSENT ? NOW : loadedAt[id]!;
}
