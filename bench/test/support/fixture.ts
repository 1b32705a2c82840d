/** A small made-up result of `sida bench`: systems on disk and over a simulated link, two of them over REST. */

import type { BenchResult, MeasurementResult, Sample } from '../../src/runs/result.js';
import { modelNamed } from '../../src/scenarios/models.js';
import { expand, measurementName, type ScenarioBlock } from '../../src/scenarios/scenarios.js';
import type { SystemName } from '../../src/scenarios/systems.js';

const BLOCKS: readonly ScenarioBlock[] = [
  {
    models: ['switch-mini'],
    data: ['sst2'],
    shares: [0.4, 0.2],
    links: ['disk', 'simulated-12GBps'],
    systems: ['resident', 'layer-streaming', 'lru', 'none', 'lstm', 'predicted', 'paper', 'replay'],
  },
  {
    models: ['switch-mini'],
    data: ['sst2'],
    shares: [0.2],
    links: ['disk'],
    arrivals: [50, 100],
    systems: ['resident', 'lstm'],
  },
];

export function sampleOf(changes: Partial<Sample> = {}): Sample {
  return {
    sentences: 10,
    tokens: 300,
    wallMs: 100,
    p50Ms: 9,
    p95Ms: 15,
    p99Ms: 19,
    slots: 51,
    experts: 256,
    slotBytes: 131_072,
    budgetBytes: 30e6,
    peakBytes: 29e6,
    fixedBytes: 22e6,
    needed: 100,
    resident: 60,
    prefetched: 20,
    late: 10,
    onDemand: 10,
    bytesMoved: 5e6,
    stallSeconds: 0.02,
    passSeconds: 0.08,
    passes: 20,
    tableSeconds: 0.004,
    tableWaitSeconds: 0.001,
    leastBytes: 4e6,
    prefetchesBegun: 30,
    prefetchesWasted: 2,
    routingsPredicted: 1000,
    routingHitsTop1: 500,
    routingHitsTop3: 800,
    rightLabels: 9,
    digest: 'a'.repeat(64),
    answers: '0101010101',
    warnings: [],
    ...changes,
  };
}

/** Over REST answers are probabilities: their digest is another. */
function digestOf(measurement: Pick<MeasurementResult, 'scenario' | 'system'>): string {
  if (['predicted', 'paper'].includes(measurement.system)) return 'c'.repeat(64);
  return (measurement.scenario.arrivals === undefined ? 'a' : 'b').repeat(64);
}

/** Times over those of LRU. */
const SLOWNESS: Partial<Record<SystemName, number>> = {
  'layer-streaming': 4,
  resident: 0.5,
  none: 0.8,
  lstm: 1.25,
};

export function resultOf(): BenchResult {
  const measurements = expand(BLOCKS).map((measurement): MeasurementResult => {
    const wall = [100, 110, 90].map((wallMs) => wallMs * (SLOWNESS[measurement.system] ?? 1));
    const bytesMoved = measurement.system === 'replay' ? 4e6 : 5e6;
    return {
      ...measurement,
      name: measurementName(measurement),
      spec: { sentences: 10, warmUp: 2, lookahead: 4, threads: 2, seed: 1, inputs: 'x' },
      commits: ['abc1234'],
      samples: wall.map((wallMs) => sampleOf({ wallMs, bytesMoved, digest: digestOf(measurement) })),
    };
  });
  return {
    format: 'sida-bench',
    version: 1,
    question: 'a question',
    command: "sida bench --only '<all>'",
    quick: true,
    rounds: 3,
    seed: 1,
    provenance: {
      commit: 'abc1234',
      machine: 'a machine',
      cores: 2,
      memoryBytes: 2 ** 34,
      isa: 'avx2',
      node: 'v20.0.0',
      sida: '0.1.0',
    },
    models: [
      {
        model: modelNamed('switch-mini'),
        bytes: { dense: 4e6, routers: 1e5, experts: 33_554_432, expert: 131_072 },
        disk: { sequential: 2e9, experts: 1e9 },
        data: {
          sst2: {
            source: 'the bundled validation set of SST-2',
            inputs: 10,
            tokens: 300,
            lengths: [
              { least: 9, most: 16, inputs: 4, tokens: 12, needed: 0.1, neededOfEncoder: 0.2 },
              { least: 17, most: 24, inputs: 6, tokens: 20, needed: 0.2, neededOfEncoder: 0.4 },
            ],
            needed: 0.16,
            misses: ['lru', 'belady'].flatMap((policy) =>
              [0.2, 0.6].map((share) => ({ share, policy, misses: 1 - share })),
            ),
          },
        },
      },
    ],
    measurements,
    skipped: [{ what: 'switch-mini/mrpc', why: 'mrpc needs --data DIR' }],
    warnings: ['SST-2: the bundled validation set stands in'],
    differing: [],
    comparisons: 30,
    seconds: 12,
  };
}
