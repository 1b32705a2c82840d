/** Scenarios × systems: what is measured, in which order, under which name. */

import type { DeviceName } from '../../../dist/native/addon-types.js';
import type { LinkName } from './links.js';
import { fitsName } from './name-pattern.js';
import { SYSTEMS, type SystemName, TRAINED, UNPREDICTED } from './systems.js';

export type DataName = 'sst2' | 'mrpc' | 'multirc' | 'words';

export interface Scenario {
  model: string;
  data: DataName;
  /** Share of the experts' bytes that fits the device, of 1. */
  share: number;
  link: LinkName;
  /** The device that computes and holds the experts that fit; default cpu. */
  device?: DeviceName;
  /** Sentences of one batch. */
  batch: number;
  /** Requests per second that arrive at `sida serve` at random times. Without it, batches run one after the other. */
  arrivals?: number;
  /** Batches seen behind the running one. */
  lookahead: number;
}

export interface Measurement {
  scenario: Scenario;
  system: SystemName;
}

/** Values that vary in a block of scenarios. Every combination is a scenario. */
export interface ScenarioBlock {
  models: readonly string[];
  data: readonly DataName[];
  shares: readonly number[];
  links: readonly LinkName[];
  device?: DeviceName;
  batches?: readonly number[];
  arrivals?: readonly number[];
  lookaheads?: readonly number[];
  systems: readonly SystemName[];
  /** Those that also run where all experts fit. */
  alsoWhole?: readonly SystemName[];
}

/** The default look-ahead, in batches. */
export const LOOKAHEAD = 4;

export function scenarioName(scenario: Scenario): string {
  const { model, data, share, link, device, batch, arrivals, lookahead } = scenario;
  const parts = [model, data, `${Math.round(share * 1000) / 10}%`, link];
  if (device !== undefined) parts.push(device);
  if (batch !== 1) parts.push(`batch-${batch}`);
  if (arrivals !== undefined) parts.push(`rest-${arrivals}`);
  if (lookahead !== LOOKAHEAD) parts.push(`ahead-${lookahead}`);
  return parts.join('/');
}

export function measurementName({ scenario, system }: Measurement): string {
  return `${scenarioName(scenario)}/${system}`;
}

/** Measurements whose answers must be equal: those of one model on the same inputs and the same kind of device. */
export function inputsKey({ model, data, device }: Scenario): string {
  return device === undefined ? `${model}/${data}` : `${model}/${data}/${device}`;
}

/** Whether all others of the same inputs, link and kind are compared with this one. */
export function isReference({ scenario, system }: Measurement): boolean {
  return system === 'resident' && scenario.share === 1;
}

/** Systems that hold every expert on the device. */
const WHOLE: readonly SystemName[] = ['resident', 'transformers', 'transformers-gpu'];

/**
 * Every combination once, in the order of the blocks. Only `resident`, the outside peers and those that a block names
 * run where all experts fit: without a shortage, all other systems are the same.
 */
export function expand(blocks: readonly ScenarioBlock[]): Measurement[] {
  const measurements = new Map<string, Measurement>();
  for (const block of blocks) {
    for (const scenario of scenariosOf(block)) {
      for (const system of block.systems) {
        const fits = scenario.share === 1;
        if (WHOLE.includes(system) ? !fits : fits && !block.alsoWhole?.includes(system)) continue;
        // Without transfers, the look-ahead does not matter.
        const measurement = { scenario: fits ? { ...scenario, lookahead: LOOKAHEAD } : scenario, system };
        measurements.set(measurementName(measurement), measurement);
      }
    }
  }
  return [...measurements.values()];
}

function* scenariosOf({
  models,
  data: sets,
  shares,
  links,
  device,
  batches = [1],
  arrivals = [undefined] as readonly (number | undefined)[],
  lookaheads = [LOOKAHEAD],
}: Omit<ScenarioBlock, 'systems' | 'arrivals'> & {
  arrivals?: readonly (number | undefined)[];
}): Generator<Scenario> {
  for (const model of models) {
    for (const data of sets) {
      for (const link of links) {
        for (const batch of batches) {
          for (const rate of arrivals) {
            for (const share of [1, ...shares.filter((each) => each < 1)]) {
              for (const lookahead of lookaheads) {
                yield {
                  ...{ model, data, share, link, batch, lookahead },
                  ...(device !== undefined && { device }),
                  ...(rate !== undefined && { arrivals: rate }),
                };
              }
            }
          }
        }
      }
    }
  }
}

/** The measurements whose name fits one of the patterns, and the reference runs that their ratios and digests need. */
export function select(measurements: readonly Measurement[], patterns: readonly string[]): Measurement[] {
  if (patterns.length === 0) return [...measurements];
  const wanted = measurements.filter((measurement) =>
    patterns.some((pattern) => fitsName(pattern, measurementName(measurement))),
  );
  const compared = new Set(wanted.map(({ scenario }) => referenceKey(scenario)));
  return measurements.filter(
    (measurement) =>
      wanted.includes(measurement) ||
      (isReference(measurement) && compared.has(referenceKey(measurement.scenario))),
  );
}

export function referenceKey({ model, data, link, device, batch, arrivals }: Scenario): string {
  return [model, data, link, device ?? 'cpu', batch, arrivals ?? 'batches'].join('/');
}

const DISK: LinkName = 'disk';
const ALL_LINKS: readonly LinkName[] = ['disk', 'simulated-12GBps'];
const OUR_SYSTEMS = SYSTEMS.filter(({ driver }) => driver === 'threads' || driver === 'engine').map(
  ({ name }) => name,
);
/** The systems that a chart over budgets compares. */
export const MAIN_SYSTEMS: readonly SystemName[] = [
  'resident',
  'layer-streaming',
  'lru',
  'none',
  'static-hot',
  ...TRAINED,
  'replay',
  'shuffled',
];
/** Where every expert fits, and where they do not without and with prediction. */
const SERVED: readonly SystemName[] = ['resident', ...UNPREDICTED, ...TRAINED];
const BUDGETS = [1, 0.6, 0.4, 0.2, 0.1];
/** Shapes of random weights that do not fit the small ones' caches. */
const LARGE: readonly string[] = [
  'switch-base-64-bf16',
  'switch-base-128-int8',
  'switch-base-256-6-layers-int4',
];
/** The model whose experts matter, and the same with transfers that cost what a real model's do. */
const WORDS_MODELS: readonly string[] = ['switch-words', 'switch-words-padded'];
const WORDS_SYSTEMS: readonly SystemName[] = [
  ...(['resident', 'lru', 'none', 'lfu', 'static-hot'] as const),
  ...TRAINED,
  'token',
  ...(['replay', 'shuffled', 'predicted', 'paper', 'layer-streaming'] as const),
];
/** The sizes of the SiDA paper. */
const SIZES: readonly string[] = ['switch-base-8-bf16', ...LARGE];

export const QUICK: readonly ScenarioBlock[] = [
  {
    models: ['switch-mini'],
    data: ['sst2'],
    shares: [0.6, 0.2],
    links: [DISK],
    systems: [...MAIN_SYSTEMS, 'predicted', 'paper'],
  },
  {
    models: ['switch-mini'],
    data: ['sst2'],
    shares: [0.2],
    links: ['simulated-12GBps'],
    systems: ['resident', 'layer-streaming', 'lru', 'none', ...TRAINED],
  },
  {
    models: ['switch-mini'],
    data: ['sst2'],
    shares: [0.2],
    links: [DISK],
    arrivals: [100],
    systems: ['resident', 'lru', 'none', ...TRAINED],
  },
  {
    models: ['switch-base-8-4-layers-bf16'],
    data: ['sst2'],
    shares: [0.4, 0.2],
    links: [DISK],
    systems: ['resident', 'layer-streaming', 'lru', 'none', ...TRAINED, 'replay'],
  },
  {
    models: ['switch-words'],
    data: ['words'],
    shares: [0.25],
    links: [DISK],
    systems: ['resident', 'lru', 'none', 'lstm', 'replay'],
  },
];

export const FULL: readonly ScenarioBlock[] = [
  {
    models: ['switch-mini'],
    data: ['sst2'],
    shares: BUDGETS,
    links: ALL_LINKS,
    systems: OUR_SYSTEMS,
    alsoWhole: [...TRAINED, ...UNPREDICTED],
  },
  {
    models: ['switch-mini'],
    data: ['sst2', 'mrpc', 'multirc'],
    shares: [],
    links: [DISK],
    systems: ['resident', 'transformers'],
  },
  {
    models: ['switch-mini'],
    data: ['mrpc', 'multirc'],
    shares: BUDGETS,
    links: [DISK],
    systems: [...MAIN_SYSTEMS, 'predicted', 'paper'],
  },
  {
    models: ['switch-mini'],
    data: ['sst2'],
    shares: [0.2],
    links: [DISK],
    batches: [1, 8, 32],
    systems: MAIN_SYSTEMS,
  },
  {
    models: ['switch-mini'],
    data: ['sst2'],
    shares: [0.4, 0.2],
    links: [DISK],
    arrivals: [25, 50, 100, 200, 400],
    systems: SERVED,
  },
  {
    models: ['switch-mini'],
    data: ['sst2'],
    shares: [0.4, 0.2, 0.1],
    links: [DISK],
    lookaheads: [1],
    systems: ['resident', ...TRAINED, 'replay'],
  },
  {
    models: WORDS_MODELS,
    data: ['words'],
    shares: [0.6, 0.4, 0.25, 0.1],
    links: [DISK],
    systems: WORDS_SYSTEMS,
  },
  {
    models: ['switch-words-padded'],
    data: ['words'],
    shares: [0.25, 0.1],
    links: ['simulated-12GBps'],
    systems: WORDS_SYSTEMS,
  },
  {
    models: WORDS_MODELS,
    data: ['words'],
    shares: [0.25, 0.1],
    links: [DISK],
    lookaheads: [1],
    systems: ['resident', ...TRAINED, 'replay'],
  },
  ...(['f32', 'bf16', 'int8', 'int4'] as const).map((dtype) => ({
    models: [`switch-base-8-${dtype}`],
    data: ['sst2'] as const,
    shares: [0.4],
    links: [DISK],
    batches: [1, 8, 32],
    systems: SERVED,
  })),
  {
    models: SIZES,
    data: ['sst2'],
    shares: [0.6, 0.4, 0.2, 0.1],
    links: [DISK],
    systems: [...SERVED, 'predicted', 'paper', 'replay', 'shuffled'],
  },
  {
    models: SIZES,
    data: ['sst2', 'mrpc', 'multirc'],
    shares: [0.2],
    links: [DISK],
    systems: [...SERVED, 'layer-streaming', 'predicted', 'paper', 'replay', 'shuffled'],
  },
  {
    models: LARGE,
    data: ['sst2'],
    shares: [0.2],
    links: ALL_LINKS,
    systems: MAIN_SYSTEMS,
  },
  {
    models: LARGE,
    data: ['sst2'],
    shares: [0.2, 0.1],
    links: [DISK],
    lookaheads: [1],
    systems: ['resident', ...TRAINED, 'replay'],
  },
  {
    models: ['switch-base-128-int8'],
    data: ['sst2'],
    shares: [0.2],
    links: [DISK],
    batches: [8],
    systems: [...SERVED, 'layer-streaming', 'replay'],
  },
  {
    models: ['switch-base-64-bf16'],
    data: ['sst2'],
    shares: [0.2],
    links: [DISK],
    arrivals: [0.5, 1, 2, 4],
    systems: SERVED,
  },
];
