/** The counters of the inference thread in one table: the metric of each, and the amount that a native pass adds. */
import type { FOUND, RunStats } from '../native/addon-types.js';

interface Counter {
  /** A metric of its own, or a label value of `sida_experts_found_total`. */
  metric: { name: string; help: string } | { found: (typeof FOUND)[number] };
  /** Absent for counters that do not count passes. */
  ofPass?: (stats: RunStats, tokens: number) => number;
}

function counter(name: string, help: string, ofPass?: Counter['ofPass']): Counter {
  return { metric: { name, help }, ...(ofPass && { ofPass }) };
}

function foundCounter(found: (typeof FOUND)[number], ofPass: Counter['ofPass']): Counter {
  return { metric: { found }, ...(ofPass && { ofPass }) };
}

const TABLE = {
  batches: counter('sida_batches_total', 'Batches run'),
  idleWaits: counter('sida_inference_idle_total', 'Times the inference thread found no hash table ready'),
  idleSeconds: counter(
    'sida_inference_idle_seconds_total',
    'Seconds the inference thread waited for a hash table',
  ),
  tableWaits: counter('sida_hash_table_waits_total', 'Batches whose hash table was still being built'),
  tableWaitSeconds: counter(
    'sida_hash_table_wait_seconds_total',
    'Seconds the inference thread waited for the table of the batch at hand',
  ),
  promptTokens: counter('sida_prompt_tokens_total', 'Tokens of the prompts that have started'),
  generatedTokens: counter(
    'sida_generated_tokens_total',
    'Tokens generated, those after a stop string included; a beam search counts its best beam',
  ),
  prefixQueriedTokens: counter(
    'sida_prefix_cache_queried_tokens_total',
    'Tokens of the prompts that were looked up in the prefix cache when they started',
  ),
  prefixHitTokens: counter(
    'sida_prefix_cache_hit_tokens_total',
    'Of these tokens, those whose KV pages it had',
  ),
  preemptions: counter(
    'sida_preemptions_total',
    'Times that a running generation gave its KV pages to an older one, to be computed again later',
  ),
  passes: counter('sida_passes_total', 'Native passes run', () => 1),
  devicePasses: counter(
    'sida_device_passes_total',
    'Of these, passes that a GPU ran without the host',
    (s) => s.devicePasses,
  ),
  tokens: counter('sida_tokens_total', 'Tokens of all passes', (_, tokens) => tokens),
  expertsNeeded: counter('sida_experts_needed_total', 'Experts that layers needed', (s) => s.needed),
  expertsResident: foundCounter('resident', (s) => s.resident),
  expertsPrefetched: foundCounter('prefetched', (s) => s.prefetched),
  expertsLate: foundCounter('late', (s) => s.late),
  expertsOnDemand: foundCounter('on_demand', (s) => s.onDemand),
  expertsPeer: foundCounter('peer', (s) => s.peer),
  expertsCpu: foundCounter('cpu', (s) => s.cpu),
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
  peerWaitSeconds: counter(
    'sida_expert_peer_wait_seconds_total',
    'Of these, seconds passes waited for answers of expert peers',
    (s) => s.peerWaitNs / 1e9,
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
} satisfies Record<string, Counter>;

type CounterName = keyof typeof TABLE;
export type Counters = Record<CounterName, number>;

export const COUNTERS = Object.entries(TABLE) as [CounterName, Counter][];

export function noCounts(): Counters {
  return Object.fromEntries(COUNTERS.map(([name]) => [name, 0])) as Counters;
}

/** Adds one pass with `tokens` tokens. */
export function addPass(sums: Counters, stats: RunStats, tokens: number): void {
  for (const [name, { ofPass }] of COUNTERS) sums[name] += ofPass?.(stats, tokens) ?? 0;
}
