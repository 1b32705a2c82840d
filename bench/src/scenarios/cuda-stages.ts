/** The measurements for a GPU, the most valuable first. A stage ends before the next one begins. */
import { expand, type Measurement, measurementName, type ScenarioBlock, select } from './scenarios.js';
import type { SystemName } from './systems.js';

const WORDS = 'switch-words';
/** The sizes of the SiDA paper. */
const SIZES = [128, 8, 64, 256].map((experts) => `switch-base-${experts}-bf16`);
const RIVALS: readonly SystemName[] = ['none', 'lru', 'default', 'paper', 'layer-streaming'];
const OURS: readonly SystemName[] = ['resident', ...RIVALS, 'predicted', 'lstm', 'lstm-on-gpu', 'replay'];
const BUDGETS = [0.5, 0.2, 0.1];

function block(models: readonly string[], rest: Partial<ScenarioBlock> = {}): ScenarioBlock {
  const usual = { data: ['sst2'], shares: [0.2], links: ['host'], device: 'cuda', systems: OURS } as const;
  return { ...usual, models, ...rest };
}

const BLOCKS: readonly (readonly ScenarioBlock[])[] = [
  [block([WORDS], { data: ['words'], shares: BUDGETS })],
  ...SIZES.map((model) => [block([model])]),
  [block(SIZES, { shares: BUDGETS })],
  [block(SIZES, { data: ['mrpc', 'multirc'], shares: BUDGETS })],
  [block([WORDS], { data: ['words'], batches: [16] }), block(SIZES, { batches: [16] })],
];

/** By stage the measurements that no earlier one has and that fit one of the patterns, with their resident runs. */
export function cudaStages(patterns: readonly string[] = []): Measurement[][] {
  const wanted = new Set(select(expand(BLOCKS.flat()), patterns).map(measurementName));
  return BLOCKS.map((blocks) =>
    expand(blocks).filter((measurement) => wanted.delete(measurementName(measurement))),
  ).filter((measurements) => measurements.length > 0);
}
