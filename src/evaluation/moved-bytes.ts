/** Replays the routing of a data set's batches to count the bytes that each policy would move. */

import { EVICTION_POLICIES } from '../inference/eviction/index.js';
import type { EvictionPolicyName } from '../protocol/engine-messages.js';
import { fewestLoads, leastBytes } from './fewest-loads.js';
import type { ReplayBatch, ReplayPass } from './replay.js';
import { type Device, type PassWatch, replayBelady, replayStore } from './replay-rules.js';

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
  /** Batches seen beyond the running one. Null means none for a reactive policy, and all of them for `belady`. */
  lookahead: number | null;
  loads: number;
  bytes: number;
}

export interface BudgetMoves extends SlotBudget {
  policies: Moved[];
}

interface Rule extends Pick<Moved, 'policy' | 'tables' | 'lookahead'> {
  run(batches: readonly ReplayBatch[], device: Device, watch: PassWatch<ReplayPass>): void;
}

const REACTIVE = ['lru', 'fifo', 'lfu', 'expert-buffering', 'farthest-next-use'] as const;

export async function movedBytes(
  batches: readonly ReplayBatch[],
  { experts, layerExperts, bytesOf, budgets, lookaheads, onReplay }: MovedOptions,
): Promise<BudgetMoves[]> {
  const rules = rulesOf(lookaheads);
  const visits = batches.flatMap(({ passes }) => passes.flatMap((pass) => pass.visits));
  const moves: BudgetMoves[] = [];
  let done = 0;
  for (const { budget, slots } of budgets) {
    const policies: Moved[] = [];
    for (const { run, ...rule } of rules) {
      let loads = 0;
      let bytes = 0;
      const load = (_: ReplayPass | null, id: number) => {
        loads += 1;
        bytes += bytesOf(id);
      };
      run(batches, { experts, layerExperts, slots }, { load });
      policies.push({ ...rule, loads, bytes });
      done += 1;
      await onReplay?.(done, rules.length * budgets.length);
    }
    policies.push({
      policy: 'belady',
      tables: false,
      lookahead: null,
      loads: fewestLoads(visits, experts, slots),
      bytes: leastBytes(visits, { experts, slots, bytesOf }),
    });
    moves.push({ budget, slots, policies });
  }
  return moves;
}

function rulesOf(lookaheads: readonly number[]): Rule[] {
  return [
    ...REACTIVE.map((policy) => storeRule(policy, null)),
    // The policy of the SiDA-MoE paper sees only the running batch.
    storeRule('fifo', 0),
    ...lookaheads.map((lookahead) => storeRule('farthest-next-use', lookahead)),
    ...lookaheads.map((lookahead) => beladyRule(lookahead)),
  ];
}

function storeRule(policy: EvictionPolicyName, lookahead: number | null): Rule {
  return {
    policy,
    tables: lookahead !== null,
    lookahead,
    run: (batches, device, watch) =>
      replayStore(batches, device, { policy: EVICTION_POLICIES[policy], lookahead }, watch),
  };
}

function beladyRule(lookahead: number): Rule {
  return {
    policy: 'belady',
    tables: false,
    lookahead,
    run: (batches, device, watch) => replayBelady(batches, device, lookahead, watch),
  };
}
