/** The measurements for a GPU, the most valuable first. A stage ends before the next one begins. */
import { type DataName, expand, type Measurement, measurementName, type ScenarioBlock, select } from './scenarios.js';
import type { SystemName } from './systems.js';

const SMALL = 'switch-base-8-bf16';
const MIDDLE = 'switch-base-64-bf16';
const HEADLINE = 'switch-base-128-bf16';
const LARGEST = 'switch-base-256-bf16';
const BUDGETED: readonly SystemName[] = ['lru', 'none', 'lstm', 'attention', 'predicted', 'replay'];
const OURS: readonly SystemName[] = ['resident', ...BUDGETED];
const BUDGETS = [0.5, 0.2, 0.1, 0.05];
const LONGER: readonly DataName[] = ['mrpc', 'multirc'];

function block(
  models: readonly string[],
  systems: readonly SystemName[],
  rest: Partial<ScenarioBlock> = {},
): ScenarioBlock {
  const usual = { data: ['sst2'], shares: [0.2], links: ['host'], device: 'cuda', batches: [1, 16] } as const;
  return { ...usual, models, systems, ...rest };
}

const BLOCKS: readonly (readonly ScenarioBlock[])[] = [
  [block(['switch-mini'], OURS)],
  ...[SMALL, HEADLINE, LARGEST, MIDDLE].map((model) => [block([model], OURS)]),
  [block([HEADLINE], BUDGETED, { shares: BUDGETS })],
  [
    block([HEADLINE], OURS, { data: LONGER }),
    block(['switch-mini'], OURS, { data: LONGER }),
    block([HEADLINE], ['layer-streaming'], { batches: [16] }),
  ],
  [
    block([SMALL, MIDDLE, LARGEST], BUDGETED, { shares: BUDGETS }),
    block([SMALL, MIDDLE, LARGEST], OURS, { data: LONGER }),
    block(['switch-mini'], OURS, { shares: BUDGETS }),
  ],
];

/** By stage the measurements that no earlier one has and that fit one of the patterns, with their resident runs. */
export function cudaStages(patterns: readonly string[] = []): Measurement[][] {
  const wanted = new Set(select(expand(BLOCKS.flat()), patterns).map(measurementName));
  return BLOCKS.map((blocks) =>
    expand(blocks).filter((measurement) => wanted.delete(measurementName(measurement))),
  ).filter((measurements) => measurements.length > 0);
}
