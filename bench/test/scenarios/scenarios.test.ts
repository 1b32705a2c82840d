import { describe, expect, it } from 'vitest';
import { MODELS } from '../../src/scenarios/models.js';
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
  shares: [1, 0.4, 0.125],
  links: ['disk'],
  systems: ['resident', 'lru', 'lstm'],
};
const names = (blocks: readonly ScenarioBlock[]) => expand(blocks).map(measurementName);

describe('expand', () => {
  it('runs every system at every budget below the whole, and the resident one once', () => {
    expect(names([{ ...BLOCK, data: ['sst2'] }])).toEqual([
      'switch-mini/sst2/100%/disk/resident',
      'switch-mini/sst2/40%/disk/lru',
      'switch-mini/sst2/40%/disk/lstm',
      'switch-mini/sst2/12.5%/disk/lru',
      'switch-mini/sst2/12.5%/disk/lstm',
    ]);
  });

  it('names batches, arrivals and look-aheads that are not the usual ones', () => {
    const only = { ...BLOCK, data: ['sst2'], shares: [0.4], systems: ['lru'] } as const;
    expect(names([{ ...only, batches: [1, 8] }])).toEqual([
      'switch-mini/sst2/40%/disk/lru',
      'switch-mini/sst2/40%/disk/batch-8/lru',
    ]);
    expect(names([{ ...only, arrivals: [50] }])).toEqual(['switch-mini/sst2/40%/disk/rest-50/lru']);
    expect(names([{ ...only, lookaheads: [1, 4] }])).toEqual([
      'switch-mini/sst2/40%/disk/ahead-1/lru',
      'switch-mini/sst2/40%/disk/lru',
    ]);
  });

  it('has a measurement of several blocks once', () => {
    const twice = names([BLOCK, BLOCK]);
    expect(twice).toEqual(names([BLOCK]));
    expect(new Set(twice).size).toBe(twice.length);
  });

  it.each([
    ['quick', QUICK],
    ['full', FULL],
  ])('the %s list has a resident run for all that it compares, and only known models', (_, blocks) => {
    const measurements = expand(blocks);
    const references = new Set(
      measurements.filter(isReference).map(({ scenario }) => referenceKey(scenario)),
    );
    for (const measurement of measurements) {
      expect(references, measurementName(measurement)).toContain(referenceKey(measurement.scenario));
      expect(MODELS.map(({ name }) => name)).toContain(measurement.scenario.model);
    }
  });
});

describe('select', () => {
  const measurements = expand([BLOCK]);
  const chosen = (...patterns: string[]) => select(measurements, patterns).map(measurementName);

  it('takes all without a pattern', () => {
    expect(select(measurements, [])).toEqual(measurements);
  });

  it('keeps the resident run that a wanted measurement is compared with, and no other', () => {
    expect(chosen('switch-mini/sst2/40%/disk/lru')).toEqual([
      'switch-mini/sst2/100%/disk/resident',
      'switch-mini/sst2/40%/disk/lru',
    ]);
  });

  it('takes stars for anything and names for all below them', () => {
    expect(chosen('*/lstm').filter((name) => name.endsWith('lstm'))).toHaveLength(4);
    expect(chosen('switch-mini/mrpc')).toHaveLength(5);
    expect(chosen('switch-mini/mrpc/4')).toEqual([]);
    expect(chosen('lru')).toEqual([]);
  });
});
