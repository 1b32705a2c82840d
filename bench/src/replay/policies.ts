/** The policies that a replay compares, by name. */
import type { ReplayRule } from '../../../dist/evaluation/replay.js';
import {
  type Device,
  hottest,
  type PassWatch,
  replayBelady,
  replayFewest,
  replayPinned,
  replayStore,
} from '../../../dist/evaluation/replay-rules.js';
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
    if (isBlind(policy)) return [{ policy, lookahead: null }];
    const seen = lookaheads.map((lookahead) => ({ policy, lookahead }));
    return policy === 'belady' ? [...seen, { policy, lookahead: null }] : seen;
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
    if (lookahead === null) replayFewest(batches, device, watch);
    else replayBelady(batches, device, lookahead, watch);
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
