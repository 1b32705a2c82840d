import { describe, expect, it } from 'vitest';
import { tabledTexts, warmUpOf } from '../../src/preparation/sizes.js';
import { cudaStages } from '../../src/scenarios/cuda-stages.js';
import { modelNamed } from '../../src/scenarios/models.js';
import {
  expand,
  FULL,
  isReference,
  measurementName,
  QUICK,
  referenceKey,
  type ScenarioBlock,
  select,
} from '../../src/scenarios/scenarios.js';

const BLOCK: ScenarioBlock = {
  models: ['switch-mini'],
  data: ['sst2', 'mrpc'],
  shares: [0.4],
  links: ['disk'],
  systems: ['resident', 'lru', 'lstm'],
};

describe('a list of measurements', () => {
  it('runs every system at every budget below the whole, and the resident one once', () => {
    const own = { ...BLOCK, data: ['sst2'], batches: [1, 8] } as const;
    expect(expand([own, own]).map(measurementName)).toEqual([
      'switch-mini/sst2/100%/disk/resident',
      'switch-mini/sst2/40%/disk/lru',
      'switch-mini/sst2/40%/disk/lstm',
      'switch-mini/sst2/100%/disk/batch-8/resident',
      'switch-mini/sst2/40%/disk/batch-8/lru',
      'switch-mini/sst2/40%/disk/batch-8/lstm',
    ]);
  });

  it.each([
    ['quick', expand(QUICK)],
    ['full', expand(FULL)],
    ['cuda', cudaStages().flat()],
  ])('%s has a resident run of a known model for all that it compares', (_, measurements) => {
    const references = new Set(measurements.filter(isReference).map(({ scenario }) => referenceKey(scenario)));
    for (const measurement of measurements) {
      expect(references, measurementName(measurement)).toContain(referenceKey(measurement.scenario));
      expect(modelNamed(measurement.scenario.model).name).toBe(measurement.scenario.model);
    }
  });

  it('runs a predictor on a GPU only where the model is there', () => {
    const onGpu = [...expand(QUICK), ...expand(FULL), ...cudaStages().flat()].filter(
      ({ system }) => system === 'lstm-on-gpu',
    );
    expect(new Set(onGpu.map(({ scenario }) => scenario.device))).toEqual(new Set(['cuda']));
  });

  it('keeps the resident run that a wanted measurement is compared with, and no other', () => {
    const chosen = (...patterns: string[]) => select(expand([BLOCK]), patterns).map(measurementName);
    expect(chosen('switch-mini/sst2/40%/disk/lru')).toEqual([
      'switch-mini/sst2/100%/disk/resident',
      'switch-mini/sst2/40%/disk/lru',
    ]);
    expect(chosen('*/lstm')).toHaveLength(4);
    expect(chosen('switch-mini/mrpc')).toHaveLength(3);
    expect(chosen('lru')).toEqual([]);
  });
});

describe('warm-up', () => {
  it('is other text than is measured, and true tables are of both', () => {
    const inputs = { texts: ['a', 'b', 'c', 'd'], training: ['a', 'f', 'g', 'h', 'i'] };
    const replayed = expand([{ ...BLOCK, systems: ['replay'] }]).filter(({ scenario }) => scenario.share < 1);
    const model = modelNamed('switch-mini');
    expect(warmUpOf(model, replayed[0]!, inputs)).toEqual(['a', 'f', 'g', 'h']);
    expect(tabledTexts(model, replayed, inputs)).toEqual(['a', 'b', 'c', 'd', 'f', 'g', 'h']);
  });
});
