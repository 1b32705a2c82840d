/** Bytes that each policy would move over the batches of a data set, by replay of their routing. */
import type { EvictionPolicyName } from '../engine/messages.js';
import { Belady } from '../inference/belady.js';
import { EVICTION_POLICIES } from '../inference/eviction/index.js';
import { fewestLoads } from './fewest-loads.js';
import { type ReplayBatch, replay, simulated } from './replay.js';
import { StoreSimulation } from './store-simulation.js';

export interface SlotBudget {
  /** As the user wrote it. */
  budget: string;
  slots: number;
}

export interface MovedOptions {
  /** Of the model, all layers. */
  experts: number;
  expertBytes: number;
  budgets: readonly SlotBudget[];
  lookaheads: readonly number[];
  /** Whether there is a refiner: the batches tell of refined tables. */
  refine: boolean;
  /** Called between two replays; may throw to end them. */
  onReplay?: (done: number, total: number) => Promise<void>;
}

export interface Moved {
  policy: EvictionPolicyName | 'static' | 'belady';
  /** Whether tables of the hash function were at hand. */
  tables: boolean;
  /** Whether the routing of each layer refined them. */
  refined: boolean;
  /** Batches seen behind the running one; null: none for a reactive policy, all of them for `belady`. */
  lookahead: number | null;
  loads: number;
  bytes: number;
}

export interface BudgetMoves extends SlotBudget {
  policies: Moved[];
}

interface Rule extends Pick<Moved, 'policy' | 'tables' | 'refined' | 'lookahead'> {
  loads(batches: readonly ReplayBatch[], experts: number, slots: number): number;
}

const REACTIVE = ['lru', 'fifo', 'lfu', 'lifo'] as const;

export async function movedBytes(
  batches: readonly ReplayBatch[],
  { experts, expertBytes, budgets, lookaheads, refine, onReplay }: MovedOptions,
): Promise<BudgetMoves[]> {
  const rules = rulesOf(lookaheads, refine);
  const moves: BudgetMoves[] = [];
  let done = 0;
  for (const { budget, slots } of budgets) {
    const policies: Moved[] = [];
    for (const { loads: count, ...rule } of rules) {
      const loads = count(batches, experts, slots);
      policies.push({ ...rule, loads, bytes: loads * expertBytes });
      done += 1;
      await onReplay?.(done, rules.length * budgets.length);
    }
    moves.push({ budget, slots, policies });
  }
  return moves;
}

function rulesOf(lookaheads: readonly number[], refine: boolean): Rule[] {
  return [
    ...REACTIVE.map((policy) => storeRule(policy, null)),
    { policy: 'static', tables: false, refined: false, lookahead: null, loads: staticLoads },
    // The policy of the SiDA paper sees the running batch alone.
    storeRule('fifo', 0),
    ...lookaheads.map((lookahead) => storeRule('farthest-next-use', lookahead)),
    ...(refine ? lookaheads.map((lookahead) => storeRule('farthest-next-use', lookahead, true)) : []),
    ...lookaheads.map((lookahead) => beladyRule(lookahead)),
    {
      policy: 'belady',
      tables: false,
      refined: false,
      lookahead: null,
      loads: (batches, experts, slots) => fewestLoads(visitsOf(batches), experts, slots),
    },
  ];
}

function storeRule(policy: EvictionPolicyName, lookahead: number | null, refined = false): Rule {
  return {
    policy,
    tables: lookahead !== null,
    refined,
    lookahead,
    loads(batches, experts, slots) {
      const store = new StoreSimulation(experts, slots);
      replay(batches, simulated(store), { policy: EVICTION_POLICIES[policy], lookahead, refine: refined });
      return store.loads;
    },
  };
}

function beladyRule(lookahead: number): Rule {
  return {
    policy: 'belady',
    tables: false,
    refined: false,
    lookahead,
    loads(batches, experts, slots) {
      const belady = new Belady(experts, slots, lookahead);
      batches.forEach(({ passes }, batch) => {
        for (const ids of passes.flatMap(({ visits }) => visits)) belady.add({ batch, ids });
      });
      // A batch beyond every look-ahead settles those before it.
      belady.add({ batch: batches.length + lookahead, ids: [] });
      return belady.loads;
    },
  };
}

function visitsOf(batches: readonly ReplayBatch[]): (readonly number[])[] {
  return batches.flatMap(({ passes }) => passes.flatMap(({ visits }) => visits));
}

/** The experts that the whole run needs most often are pinned, all but one slot's worth; the others take turns in that. */
function staticLoads(batches: readonly ReplayBatch[], experts: number, slots: number): number {
  const uses = new Float64Array(experts);
  for (const ids of visitsOf(batches)) for (const id of ids) uses[id]! += 1;
  const used = [...uses.keys()].filter((id) => uses[id]! > 0).sort((a, b) => uses[b]! - uses[a]! || a - b);
  const store = new StoreSimulation(experts, slots);
  store.pin(used.slice(0, slots < experts ? slots - 1 : experts));
  const { lru } = EVICTION_POLICIES;
  replay(batches, simulated(store), { policy: lru, lookahead: null, refine: false });
  return store.loads;
}
