/** Scenarios × systems: what is measured, in which order, under which name. */
import type { DeviceName } from '../../../dist/native/addon-types.js';
import type { LinkName } from './links.js';
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
  systems: readonly SystemName[];
  /** Those that also run where all experts fit. */
  alsoWhole?: readonly SystemName[];
}

export function measurementName({ scenario, system }: Measurement): string {
  const { model, data, share, link, device, batch } = scenario;
  const parts = [model, data, `${Math.round(share * 1000) / 10}%`, link];
  if (device !== undefined) parts.push(device);
  if (batch !== 1) parts.push(`batch-${batch}`);
  return [...parts, system].join('/');
}

/** A pattern names a measurement or its beginning; `*` in it stands for anything, slashes included. */
export function fitsName(pattern: string, name: string): boolean {
  const parts = pattern.split('*').map((part) => part.replace(/[.+?^${}()|[\]\\]/g, '\\$&'));
  return new RegExp(`^${parts.join('.*')}(/.*)?$`).test(name);
}

/** Measurements whose answers must be equal: those of one model on the same inputs and the same kind of device. */
export function inputsKey({ model, data, device }: Scenario): string {
  return device === undefined ? `${model}/${data}` : `${model}/${data}/${device}`;
}

/** Whether all others of the same inputs, link and kind are compared with this one. */
export function isReference({ scenario, system }: Measurement): boolean {
  return system === 'resident' && scenario.share === 1;
}

/**
 * Every combination once, in the order of the blocks. Only the resident one, and those that a block
 * names, run where all experts fit: without a shortage, all other systems are the same.
 */
export function expand(blocks: readonly ScenarioBlock[]): Measurement[] {
  const measurements = new Map<string, Measurement>();
  for (const block of blocks) {
    for (const scenario of scenariosOf(block)) {
      for (const system of block.systems) {
        const fits = scenario.share === 1;
        if (system === 'resident' ? !fits : fits && !block.alsoWhole?.includes(system)) continue;
        measurements.set(measurementName({ scenario, system }), { scenario, system });
      }
    }
  }
  return [...measurements.values()];
}

function scenariosOf({ models, data: sets, shares, links, device, batches = [1] }: ScenarioBlock): Scenario[] {
  const all = [1, ...shares.filter((share) => share < 1)];
  return models.flatMap((model) =>
    sets.flatMap((data) =>
      links.flatMap((link) =>
        batches.flatMap((batch) =>
          all.map((share) => ({ model, data, share, link, batch, ...(device !== undefined && { device }) })),
        ),
      ),
    ),
  );
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
      wanted.includes(measurement) || (isReference(measurement) && compared.has(referenceKey(measurement.scenario))),
  );
}

export function referenceKey({ model, data, link, device, batch }: Scenario): string {
  return [model, data, link, device ?? 'cpu', batch].join('/');
}

const BUDGETS = [0.6, 0.4, 0.2, 0.1];
/** Where every expert fits, and where they do not without and with prediction. */
const SERVED: readonly SystemName[] = ['resident', ...UNPREDICTED, ...TRAINED];
const MAIN: readonly SystemName[] = [...SERVED, 'layer-streaming', 'replay', 'shuffled'];
const PAPER: readonly SystemName[] = [...MAIN, 'predicted', 'paper'];
const ALL = SYSTEMS.map(({ name }) => name).filter((name) => name !== 'lstm-on-gpu');
/** Shapes of random weights that do not fit the small ones' caches. */
const LARGE = ['switch-base-64-bf16', 'switch-base-128-int8', 'switch-base-256-6-layers-int4'];
/** The sizes of the SiDA paper. */
const SIZES = ['switch-base-8-bf16', ...LARGE];
/** The model whose experts matter, and the same with transfers that cost what a real model's do. */
const WORDS = ['switch-words', 'switch-words-padded'];
const WORDS_SYSTEMS: readonly SystemName[] = [...PAPER, 'default', 'lfu', 'token'];
const SST2 = { data: ['sst2'], links: ['disk'] } as const;
const LINK = { links: ['simulated-12GBps'] } as const;

export const QUICK: readonly ScenarioBlock[] = [
  { ...SST2, models: ['switch-mini'], shares: [0.6, 0.2], systems: PAPER },
  { ...SST2, ...LINK, models: ['switch-mini'], shares: [0.2], systems: [...SERVED, 'layer-streaming'] },
  {
    ...SST2,
    models: ['switch-base-8-4-layers-bf16'],
    shares: [0.4, 0.2],
    systems: [...SERVED, 'layer-streaming', 'replay'],
  },
  {
    models: ['switch-words'],
    data: ['words'],
    shares: [0.25],
    links: ['disk'],
    systems: ['resident', 'lru', 'none', 'default', 'lstm', 'replay'],
  },
];

export const FULL: readonly ScenarioBlock[] = [
  {
    models: ['switch-mini'],
    data: ['sst2'],
    shares: BUDGETS,
    links: ['disk', 'simulated-12GBps'],
    systems: ALL,
    alsoWhole: [...TRAINED, ...UNPREDICTED],
  },
  { ...SST2, models: ['switch-mini'], data: ['mrpc', 'multirc'], shares: BUDGETS, systems: PAPER },
  { ...SST2, models: ['switch-mini'], shares: [0.2], batches: [8, 32], systems: MAIN },
  { models: WORDS, data: ['words'], shares: [0.6, 0.4, 0.25, 0.1], links: ['disk'], systems: WORDS_SYSTEMS },
  { ...LINK, models: WORDS.slice(1), data: ['words'], shares: [0.25, 0.1], systems: WORDS_SYSTEMS },
  {
    ...SST2,
    models: ['f32', 'bf16', 'int8', 'int4'].map((dtype) => `switch-base-8-${dtype}`),
    shares: [0.4],
    batches: [1, 8, 32],
    systems: SERVED,
  },
  {
    ...SST2,
    models: SIZES,
    shares: BUDGETS,
    systems: PAPER.filter((system) => system !== 'layer-streaming'),
  },
  { ...SST2, models: SIZES, data: ['mrpc', 'multirc'], shares: [0.2], systems: PAPER },
  { ...SST2, models: LARGE, links: ['disk', 'simulated-12GBps'], shares: [0.2], systems: MAIN },
  { ...SST2, models: ['switch-base-128-int8'], shares: [0.2], batches: [8], systems: MAIN },
];
