/** The policies that a replay compares, by name. */
import {
  type ReplayBatch,
  type ReplayPass,
  type ReplayRule,
  replay,
} from '../../../dist/evaluation/replay.js';
import {
  type Device,
  type NeedsBatch,
  type PassWatch,
  replayFewest,
  replayStore,
} from '../../../dist/evaluation/replay-rules.js';
import { WatchedStore } from '../../../dist/evaluation/watched-store.js';
import { EVICTION_POLICIES } from '../../../dist/inference/eviction/index.js';
import type { EvictionPolicy } from '../../../dist/inference/eviction/policy.js';
import type { RecordedPass, RoutingTrace } from './routing-trace.js';
import { TABLES, type TableKind, withoutTables, withTables } from './tables.js';

/** True tables used for eviction only. The difference to `true-tables` is what prefetching costs. */
const ON_DEMAND = 'true-tables-on-demand';

/** Policies that know the past only. */
export const BLIND = ['fifo', 'lru', 'lfu', 'expert-buffering', 'none', 'static-hot'] as const;
/** Policies that plan with tables of the running batch and of those behind it. */
export const FORECASTING = TABLES.map((kind) => `${kind}-tables` as const);
export const POLICIES = [...BLIND, ...FORECASTING, ON_DEMAND, 'belady'] as const;
export type PolicyName = (typeof POLICIES)[number];

const EVICTION: Partial<Record<PolicyName, EvictionPolicy>> = {
  fifo: EVICTION_POLICIES.fifo,
  lru: EVICTION_POLICIES.lru,
  lfu: EVICTION_POLICIES.lfu,
  'expert-buffering': EVICTION_POLICIES['expert-buffering'],
  none: EVICTION_POLICIES['farthest-next-use'],
};

export interface PolicyRun {
  policy: PolicyName;
  /** Batches seen behind the running one. null means none for blind policies, and all batches for `belady`. */
  lookahead: number | null;
}

/** Every name with its look-aheads. */
export function runsOf(policies: readonly PolicyName[], lookaheads: readonly number[]): PolicyRun[] {
  return POLICIES.filter((name) => policies.includes(name)).flatMap((policy): PolicyRun[] => {
    if (isBlind(policy) || policy === 'belady') return [{ policy, lookahead: null }];
    return lookaheads.map((lookahead) => ({ policy, lookahead }));
  });
}

export function isBlind(policy: PolicyName): boolean {
  return (BLIND as readonly PolicyName[]).includes(policy);
}

/** `learned`: batches that `static-hot` chooses its experts from. */
export function runPolicy(
  { policy, lookahead }: PolicyRun,
  trace: RoutingTrace,
  device: Device,
  learned: number,
  watch: PassWatch<RecordedPass>,
): void {
  const { batches } = trace;
  if (policy === 'belady') {
    replayFewest(batches, device, watch);
  } else if (policy === 'static-hot') {
    const hot = hottest(batches.slice(0, learned), device.experts);
    replayPinned(withoutTables(trace), device, { hot, learned }, watch);
  } else if (lookahead === null) {
    const rule: ReplayRule = { policy: EVICTION[policy]!, lookahead: null };
    replayStore(withoutTables(trace), device, rule, watch);
  } else {
    const kind = policy.slice(0, policy.indexOf('-tables')) as TableKind;
    const rule: ReplayRule = {
      policy: EVICTION_POLICIES['farthest-next-use'],
      lookahead,
      prefetch: policy !== ON_DEMAND,
    };
    replayStore(withTables(trace, kind, lookahead), device, rule, watch);
  }
}

/**
 * Runs the first `learned` batches under LFU and then pins the `hot` experts, hottest first. One slot stays free for
 * the other experts, which replace each other there.
 */
function replayPinned<Pass extends ReplayPass>(
  batches: readonly ReplayBatch<Pass>[],
  device: Device,
  { hot, learned }: { hot: readonly number[]; learned: number },
  watch: PassWatch<NoInfer<Pass>>,
): void {
  const { experts, slots } = device;
  const store = new WatchedStore(device, watch);
  const { lfu, lru } = EVICTION_POLICIES;
  replay(batches.slice(0, learned), store, { policy: lfu, lookahead: null });
  const rest = batches.slice(learned);
  store.pin(hot.slice(0, slots < experts ? slots - 1 : experts), rest[0]?.passes[0]);
  replay(rest, store, { policy: lru, lookahead: null });
}

/** The experts in use, sorted by the number of visits that need them, most first. */
export function hottest(batches: readonly NeedsBatch[], experts: number): number[] {
  const uses = new Float64Array(experts);
  for (const { passes } of batches) {
    for (const { visits } of passes) for (const ids of visits) for (const id of ids) uses[id]! += 1;
  }
  return [...uses.keys()].filter((id) => uses[id]! > 0).sort((a, b) => uses[b]! - uses[a]! || a - b);
}
