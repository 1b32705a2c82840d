/**
 * The counters of native passes in one table: the amount that a pass adds, and the metric that exports the counter.
 */
import type { FOUND, RunStats } from '../native/addon-types.js';

interface PassCounter {
  /** Returns the amount that a pass adds. */
  of(stats: RunStats, tokens: number): number;
  /** A label value of `sida_experts_found_total`, or a metric of its own. */
  metric: { found: (typeof FOUND)[number] } | { name: string; help: string };
}

function counter(name: string, help: string, of: PassCounter['of']): PassCounter {
  return { of, metric: { name, help } };
}

function foundCounter(found: (typeof FOUND)[number], of: PassCounter['of']): PassCounter {
  return { of, metric: { found } };
}

const COUNTERS = {
  passes: counter('sida_passes_total', 'Native passes run', () => 1),
  tokens: counter('sida_tokens_total', 'Tokens of all passes', (_, tokens) => tokens),
  expertsNeeded: counter('sida_experts_needed_total', 'Experts that layers needed', (s) => s.needed),
  expertsResident: foundCounter('resident', (s) => s.resident),
  expertsPrefetched: foundCounter('prefetched', (s) => s.prefetched),
  expertsLate: foundCounter('late', (s) => s.late),
  expertsOnDemand: foundCounter('on_demand', (s) => s.onDemand),
  bytesMoved: counter(
    'sida_experts_moved_bytes_total',
    'Bytes of experts moved into the device',
    (s) => s.bytesMoved,
  ),
  diskReads: counter(
    'sida_disk_reads_total',
    'Reads of experts from disk, of parts of one or of neighbours at once',
    (s) => s.diskReads,
  ),
  overtakes: counter(
    'sida_disk_overtakes_total',
    'Experts fetched on demand that were read before the rest of a prefetch',
    (s) => s.overtakes,
  ),
  stallSeconds: counter(
    'sida_experts_stall_seconds_total',
    'Seconds passes waited for experts',
    (s) => s.stallNs / 1e9,
  ),
  passSeconds: counter('sida_pass_seconds_total', 'Seconds spent in native passes', (s) => s.passNs / 1e9),
  prefetchesBegun: counter('sida_prefetches_total', 'Prefetches of experts begun', (s) => s.prefetchesBegun),
  prefetchesForeseen: counter(
    'sida_prefetches_foreseen_total',
    'Of these, prefetches for later layers of the running pass, whose routers named the experts ahead',
    (s) => s.prefetchesForeseen,
  ),
  prefetchesCancelled: counter(
    'sida_prefetches_cancelled_total',
    'Prefetches cancelled before they started',
    (s) => s.prefetchesCancelled,
  ),
  prefetchesWasted: counter(
    'sida_prefetches_wasted_total',
    'Prefetched experts evicted before they were needed',
    (s) => s.prefetchesWasted,
  ),
} satisfies Record<string, PassCounter>;

type PassCounterName = keyof typeof COUNTERS;
export type PassCounters = Record<PassCounterName, number>;

export const PASS_COUNTERS = Object.entries(COUNTERS) as [PassCounterName, PassCounter][];

export function noPasses(): PassCounters {
  return Object.fromEntries(PASS_COUNTERS.map(([name]) => [name, 0])) as PassCounters;
}

/** Adds one pass with `tokens` tokens. */
export function addPass(sums: PassCounters, stats: RunStats, tokens: number): void {
  for (const [name, { of }] of PASS_COUNTERS) sums[name] += of(stats, tokens);
}
