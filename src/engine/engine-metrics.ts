/** The engine's counters as metrics, read at each scrape. */
import { Gauge, type Registry } from 'prom-client';
import { recallWidths } from '../forecast/hit-ranks.js';
import type { PeerLink } from '../native/addon-types.js';
import { type Copied, copyCounters, copyGauges, copyLabelled } from '../observability/copied-metrics.js';
import { COUNTERS } from '../protocol/counters.js';
import type { EngineCounters } from '../protocol/engine-messages.js';
import type { TokenizerFigures } from '../protocol/tokenizer-messages.js';
import { VERSION } from '../version.js';
import type { EngineHandle } from './engine-handle.js';

/** Counters other than those of passes and of the inference thread. */
const ENGINE_COUNTERS: [name: string, help: string, read: (counters: EngineCounters) => number][] = [
  [
    'sida_predictor_routings_total',
    'Routings, a token to one of its experts in a MoE layer, for which a hash table named experts',
    (c) => c.routingsPredicted,
  ],
  [
    'sida_hash_build_seconds_total',
    'Seconds the hash-building thread spent on hash tables',
    (c) => c.tables.seconds,
  ],
  ['sida_quote_answers_total', 'Answers whose cost was quoted before they ran', (c) => c.quotes.answers],
  [
    'sida_quote_answers_within_total',
    'Of these, answers that took no longer than 90 % were quoted to take',
    (c) => c.quotes.within,
  ],
  ['sida_batch_inputs_total', 'Inputs put into batches', (c) => c.tables.inputs],
];

const ENGINE_GAUGES: [name: string, help: string, read: (counters: EngineCounters) => number][] = [
  [
    'sida_hash_table_weight',
    'Weight of hash tables when experts are loaded and evicted, learned from how often they were right, ' +
      'mean of the layers: 1 as they say, 0 ignored, below 0 the opposite of what they say',
    (c) => c.tableWeight,
  ],
  ['sida_hash_tables_queued', 'Hash tables waiting for the inference thread', (c) => c.tablesQueued],
  [
    'sida_active_sequences',
    'Sequences being run: prompts, and generations with each of their choices and beams',
    (c) => c.activeSequences,
  ],
  [
    'sida_waiting_sequences',
    'Inputs in the engine that wait for a batch or for KV pages, those included that gave their pages to older ones',
    (c) => c.waitingInputs,
  ],
  ['sida_engine_resident_memory_bytes', 'Resident memory of the engine process in bytes', (c) => c.rssBytes],
  ['sida_device_budget_bytes', 'Limit of device bytes', (c) => c.usage.budgetBytes],
  ['sida_device_used_bytes', 'Device bytes in use', (c) => c.usage.usedBytes],
  ['sida_device_peak_bytes', 'Most device bytes ever in use', (c) => c.usage.peakBytes],
  ['sida_device_smallest_bytes', 'Smallest workable budget in bytes', (c) => c.usage.smallestBytes],
  ['sida_device_slots', 'Slots for experts on the device', (c) => c.usage.slots],
  ['sida_kv_pages', 'Pages of the KV cache', (c) => c.usage.kvPages],
  ['sida_kv_pages_free', 'Free pages of the KV cache', (c) => c.usage.kvPagesFree],
  [
    'sida_kv_pages_used',
    'Pages of the KV cache that running sequences use',
    (c) => c.usage.kvPages - c.usage.kvPagesFree - c.kvPagesCached,
  ],
  [
    'sida_kv_pages_cached',
    'Pages that the prefix cache keeps and no running request uses; they are evicted when one needs them',
    (c) => c.kvPagesCached,
  ],
  [
    'sida_kv_window_pages',
    'Pages of layers that see only a window, which they give up behind it, and states of recurrent layers',
    (c) => windowPages(c, 'pages'),
  ],
  ['sida_kv_window_pages_free', 'Free pages of these layers', (c) => windowPages(c, 'pagesFree')],
  ['sida_host_budget_bytes', 'Limit of host tier bytes', (c) => c.usage.host.budgetBytes],
  ['sida_host_used_bytes', 'Host tier bytes in use', (c) => c.usage.host.usedBytes],
  ['sida_host_experts', 'Experts kept in the host tier', (c) => c.usage.host.experts],
];

/** These are gauges: an engine that restarts counts from 0. */
const PEER_FIGURES: [name: string, help: string, read: (peer: PeerLink) => number][] = [
  ['sida_expert_peer_up', '1 while the expert peer is connected', ({ connected }) => (connected ? 1 : 0)],
  ['sida_expert_peer_held', 'Experts that the peer holds', ({ held }) => held],
  ['sida_expert_peer_experts', 'Experts that it computed since the engine started', ({ experts }) => experts],
  [
    'sida_expert_peer_failures',
    'Requests to it without an answer since the engine started; their experts were loaded',
    ({ failures }) => failures,
  ],
  [
    'sida_expert_peer_bytes',
    'Bytes that were sent to it and received since the engine started',
    ({ sentBytes, receivedBytes }) => sentBytes + receivedBytes,
  ],
];

function windowPages({ usage }: EngineCounters, figure: 'pages' | 'pagesFree'): number {
  return usage.kvWindows.reduce((sum, window) => sum + window[figure], 0);
}

/** The value is 1. Queries join its labels to other metrics. */
function copyBuild(registry: Registry, engine: EngineHandle): void {
  new Gauge({
    name: 'sida_build_info',
    help:
      '1, labelled with the versions of sida and of Node, the device, and the instruction set of the kernels of the CPU; ' +
      'isa and device are empty before the engine has been ready, and where engines are those of workers',
    labelNames: ['version', 'node', 'isa', 'device'],
    registers: [registry],
    collect() {
      const { isa = '', device = '' } = engine.computes ?? {};
      this.reset();
      this.set({ version: VERSION, node: process.versions.node, isa, device }, 1);
    },
  });
}

export function copyEngine(registry: Registry, engine: EngineHandle): void {
  copyBuild(registry, engine);
  const figure = (name: keyof TokenizerFigures) => () => engine.tokenizer?.[name];
  const counter = (read: (counters: EngineCounters) => number) => () =>
    engine.counters === undefined ? undefined : read(engine.counters);
  copyGauges(registry, [
    [
      'sida_engine_ready',
      '1 while the engine takes jobs, or is not loaded until one comes',
      () => (engine.state.phase === 'ready' || engine.state.phase === 'idle' ? 1 : 0),
    ],
    ['sida_tokenizer_texts_waiting', 'Texts waiting for the tokenizer thread', figure('waiting')],
    ['sida_tokenizer_bytes_waiting', 'Bytes of these texts', figure('waitingBytes')],
    [
      'sida_grammar_threads',
      'Threads that compile grammars and follow answers; they start with the first answer that a grammar binds',
      () => engine.grammars?.threads,
    ],
    ['sida_grammar_bytes', 'WebAssembly memory of these threads in bytes', () => engine.grammars?.bytes],
    ...ENGINE_GAUGES.map(([name, help, read]): Copied => [name, help, counter(read)]),
  ]);
  copyCounters(registry, [
    ['sida_engine_restarts_total', 'Restarts of the engine process after a crash', () => engine.restarts],
    ['sida_tokenizer_seconds_total', 'Seconds the tokenizer thread spent on texts', figure('seconds')],
    [
      'sida_tokenizer_ended_total',
      'Tokenizer threads that were ended and replaced because a text took too long',
      figure('ended'),
    ],
    ...COUNTERS.flatMap(([counted, { metric }]): Copied[] =>
      'name' in metric ? [[metric.name, metric.help, counter((counters) => counters[counted])]] : [],
    ),
    ...ENGINE_COUNTERS.map(([name, help, read]): Copied => [name, help, counter(read)]),
  ]);
  copyLabelled(
    registry,
    ['sida_experts_found_total', 'Experts a layer needed, by how it found them', 'found'],
    () =>
      Object.fromEntries(
        COUNTERS.flatMap(([name, { metric }]) =>
          'found' in metric ? [[metric.found, engine.counters?.[name] ?? 0]] : [],
        ),
      ),
  );
  copyLabelled(
    registry,
    [
      'sida_predictor_hits_total',
      'Routings whose expert was among the first `top` that the hash table named: 1 and 3, or k and 2k for ' +
        'a model that chooses k experts; divided by sida_predictor_routings_total it is recall@top',
      'top',
    ],
    () => {
      const { narrow, wide } = recallWidths(engine.model?.shape.topK ?? 1);
      const { routingHitsNarrow = 0, routingHitsWide = 0 } = engine.counters ?? {};
      return { [narrow]: routingHitsNarrow, [wide]: routingHitsWide };
    },
  );
  copyLabelled(
    registry,
    [
      'sida_hash_tables_total',
      'Batches by the state of their hash tables: ready, failed (the predictor gave no answer), abandoned (too late), ' +
        'skipped (saves less than it takes, after many late ones, or too large)',
      'state',
    ],
    () => {
      const { ready = 0, failed = 0, abandoned = 0, skipped = 0 } = engine.counters?.tables ?? {};
      return { ready, failed, abandoned, skipped };
    },
  );
  for (const [name, help, read] of PEER_FIGURES) {
    new Gauge({
      name,
      help,
      labelNames: ['peer'],
      registers: [registry],
      collect() {
        this.reset();
        for (const peer of engine.counters?.usage.peers ?? []) this.set({ peer: peer.address }, read(peer));
      },
    });
  }
  new Gauge({
    name: 'sida_predictor_up',
    help: '1 for the hash function that names experts; 0 with the function none when no predictor was asked for or it could not be opened',
    labelNames: ['function'],
    registers: [registry],
    collect() {
      const name = engine.model?.predictor.name;
      this.reset();
      if (name !== undefined) this.set({ function: name ?? 'none' }, name === null ? 0 : 1);
    },
  });
}
