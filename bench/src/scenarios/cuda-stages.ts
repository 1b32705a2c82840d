/** The measurements for a GPU, the most valuable first. A stage ends before the next one begins. */
import {
  type DataName,
  expand,
  type Measurement,
  measurementName,
  type ScenarioBlock,
  select,
} from './scenarios.js';
import type { SystemName } from './systems.js';

export interface CudaStage {
  name: string;
  measurements: Measurement[];
}

const SMALL = 'switch-base-8-bf16';
const MIDDLE = 'switch-base-64-bf16';
const HEADLINE = 'switch-base-128-bf16';
const LARGEST = 'switch-base-256-bf16';
/** Reactive, predicted with exact answers, predicted as the SiDA paper does, and with the true routing known. */
const OURS: readonly SystemName[] = ['resident', 'lru', 'none', 'lstm', 'attention', 'predicted', 'replay'];
const PEERS: readonly SystemName[] = ['transformers-gpu', 'transformers-offload'];
const BUDGETED: readonly SystemName[] = ['lru', 'none', 'lstm', 'attention', 'predicted', 'replay'];
const BUDGETS = [0.5, 0.2, 0.1, 0.05];

function block(
  model: string,
  systems: readonly SystemName[],
  rest: Partial<Omit<ScenarioBlock, 'models' | 'systems'>> = {},
): ScenarioBlock {
  return {
    models: [model],
    data: ['sst2'],
    shares: [0.2],
    links: ['host'],
    device: 'cuda',
    batches: [1, 16],
    systems,
    ...rest,
  };
}

const LONGER: readonly DataName[] = ['mrpc', 'multirc'];

const BLOCKS: readonly (readonly [string, readonly ScenarioBlock[]])[] = [
  ['trained model', [block('switch-mini', OURS)]],
  ...[SMALL, HEADLINE, LARGEST, MIDDLE].flatMap((model) => [
    [`${model} at 20 %`, [block(model, OURS)]] as const,
    [`transformers beside ${model}`, [block(model, PEERS)]] as const,
  ]),
  ['budgets', [block(HEADLINE, BUDGETED, { shares: BUDGETS })]],
  [
    'longer inputs',
    [block(HEADLINE, [...OURS, ...PEERS], { data: LONGER }), block('switch-mini', OURS, { data: LONGER })],
  ],
  ['whole layers', [block(HEADLINE, ['layer-streaming'], { batches: [16] })]],
  ['all sizes', [SMALL, MIDDLE, LARGEST].map((model) => block(model, BUDGETED, { shares: BUDGETS }))],
  ['all sizes, longer inputs', [SMALL, MIDDLE, LARGEST].map((model) => block(model, OURS, { data: LONGER }))],
  ['trained model, budgets', [block('switch-mini', OURS, { shares: BUDGETS })]],
];

/** The stages with the measurements that no earlier one has. */
export const CUDA_STAGES: readonly CudaStage[] = (() => {
  const seen = new Set<string>();
  return BLOCKS.map(([name, blocks]) => {
    const measurements = expand(blocks).filter((measurement) => {
      const key = measurementName(measurement);
      if (seen.has(key)) return false;
      seen.add(key);
      return true;
    });
    return { name, measurements };
  });
})();

/** The measurements of each stage that fit one of the patterns, with the resident runs they are compared with. */
export function selectStages(stages: readonly CudaStage[], patterns: readonly string[]): Measurement[][] {
  const wanted = new Set(
    select(
      stages.flatMap(({ measurements }) => measurements),
      patterns,
    ).map(measurementName),
  );
  return stages
    .map(({ measurements }) => measurements.filter((measurement) => wanted.has(measurementName(measurement))))
    .filter((measurements) => measurements.length > 0);
}
