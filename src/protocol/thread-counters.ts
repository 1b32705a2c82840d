/** The inference thread's counters other than those of passes, in one table: field and exported metric. */

const COUNTERS = {
  batches: { name: 'sida_batches_total', help: 'Batches run' },
  idleWaits: {
    name: 'sida_inference_idle_total',
    help: 'Times the inference thread found no hash table ready',
  },
  idleSeconds: {
    name: 'sida_inference_idle_seconds_total',
    help: 'Seconds the inference thread waited for a hash table',
  },
  tableWaits: {
    name: 'sida_hash_table_waits_total',
    help: 'Batches whose hash table was still being built',
  },
  tableWaitSeconds: {
    name: 'sida_hash_table_wait_seconds_total',
    help: 'Seconds the inference thread waited for the table of the batch at hand',
  },
  promptTokens: {
    name: 'sida_prompt_tokens_total',
    help: 'Tokens of the prompts that have started',
  },
  generatedTokens: {
    name: 'sida_generated_tokens_total',
    help: 'Tokens generated, those after a stop string included; a beam search counts its best beam',
  },
  prefixQueriedTokens: {
    name: 'sida_prefix_cache_queried_tokens_total',
    help: 'Tokens of the prompts that were looked up in the prefix cache when they started',
  },
  prefixHitTokens: {
    name: 'sida_prefix_cache_hit_tokens_total',
    help: 'Of these tokens, those whose KV pages it had',
  },
  preemptions: {
    name: 'sida_preemptions_total',
    help: 'Times that a running generation gave its KV pages to an older one, to be computed again later',
  },
} satisfies Record<string, { name: string; help: string }>;

type ThreadCounter = keyof typeof COUNTERS;
export type ThreadCounters = Record<ThreadCounter, number>;

export const THREAD_COUNTERS = Object.entries(COUNTERS) as [ThreadCounter, { name: string; help: string }][];

export function noThreadCounts(): ThreadCounters {
  return Object.fromEntries(THREAD_COUNTERS.map(([counter]) => [counter, 0])) as ThreadCounters;
}
