/** Replays the routing of a data set's batches to count the bytes that each policy would move. */

import type { EvictionPolicyName } from '../config/engine-options.js';
import { EVICTION_POLICIES } from '../inference/eviction/index.js';
import { fewestLoads, leastBytes } from './fewest-loads.js';
import { type ReplayBatch, type ReplayPass, replay } from './replay.js';
import { WatchedStore } from './watched-store.js';

export interface SlotBudget {
  /** The budget as the user wrote it. */
  budget: string;
  slots: number;
}

interface MovedOptions {
  /** Experts of all layers of the model. */
  experts: number;
  /** Experts of each layer. */
  layerExperts: number;
  /** Bytes of an expert by flat id. */
  bytesOf: (id: number) => number;
  budgets: readonly SlotBudget[];
  lookaheads: readonly number[];
  /** Awaited after each replay. It may throw to end them. */
  onReplay?: (done: number, total: number) => Promise<void>;
}

export interface Moved {
  policy: EvictionPolicyName | 'belady';
  /** Whether the policy used tables of the hash function. */
  tables: boolean;
  /** Batches beyond the running one whose tables are seen; null without tables. `belady` sees the whole run. */
  lookahead: number | null;
  loads: number;
  bytes: number;
}

export interface BudgetMoves extends SlotBudget {
  policies: Moved[];
}

const REACTIVE = ['lru', 'fifo', 'lfu', 'expert-buffering', 'farthest-next-use'] as const;

export async function movedBytes(
  batches: readonly ReplayBatch[],
  { experts, layerExperts, bytesOf, budgets, lookaheads, onReplay }: MovedOptions,
): Promise<BudgetMoves[]> {
  const rules = [
    ...REACTIVE.map((policy) => ruleOf(policy, null)),
    // The policy of the SiDA-MoE paper sees only the running batch.
    ruleOf('fifo', 0),
    ...lookaheads.map((lookahead) => ruleOf('farthest-next-use', lookahead)),
  ];
  const visits = batches.flatMap(({ passes }) => passes.flatMap((pass) => pass.visits));
  const moves: BudgetMoves[] = [];
  let done = 0;
  for (const { budget, slots } of budgets) {
    const policies: Moved[] = [];
    for (const { policy, lookahead, tables } of rules) {
      const moved = { policy, tables, lookahead, loads: 0, bytes: 0 };
      const load = (_: ReplayPass | null, id: number) => {
        moved.loads += 1;
        moved.bytes += bytesOf(id);
      };
      const rule = { policy: EVICTION_POLICIES[policy], lookahead };
      replay(batches, new WatchedStore({ experts, layerExperts, slots }, { load }), rule);
      policies.push(moved);
      done += 1;
      await onReplay?.(done, rules.length * budgets.length);
    }
    policies.push({
      ...{ policy: 'belady', tables: false, lookahead: null },
      loads: fewestLoads(visits, experts, slots),
      bytes: leastBytes(visits, { experts, slots, bytesOf }),
    });
    moves.push({ budget, slots, policies });
  }
  return moves;
}

function ruleOf(policy: EvictionPolicyName, lookahead: number | null) {
  return { policy, tables: lookahead !== null, lookahead };
}
