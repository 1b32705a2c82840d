import { describe, expect, it } from 'vitest';
import { judgeExactness } from '../../src/runs/exactness.js';
import type { MeasurementResult, Sample } from '../../src/runs/result.js';
import { expand, measurementName } from '../../src/scenarios/scenarios.js';

const LRU = 'switch-mini/sst2/20%/disk/lru';
const RESIDENT = 'switch-mini/sst2/100%/simulated-12GBps/resident';
const PREDICTED = 'switch-mini/sst2/20%/disk/predicted';

/** Three samples of each system over both links; predicted routing answers otherwise. */
function measured(differs?: string): MeasurementResult[] {
  const block = {
    models: ['switch-mini'],
    data: ['sst2'],
    shares: [0.2],
    links: ['disk', 'simulated-12GBps'],
    systems: ['resident', 'lru', 'lstm', 'predicted'],
  } as const;
  return expand([block]).map((measurement) => {
    const name = measurementName(measurement);
    const digests = ['a', 'a', name === differs ? 'd' : 'a'];
    const of = (digest: string) => ({ digest: measurement.system === 'predicted' ? 'c' : digest }) as Sample;
    return {
      ...measurement,
      name,
      spec: {} as MeasurementResult['spec'],
      commits: [],
      samples: digests.map(of),
    };
  });
}

describe('judgeExactness', () => {
  it('compares each sample of exact systems, over both links', () => {
    expect(judgeExactness(measured())).toEqual({ comparisons: 3 * 6, differing: [], alone: [] });
  });

  it.each([LRU, RESIDENT])('names a measurement in which one sample differs: %s', (name) => {
    expect(judgeExactness(measured(name)).differing).toEqual([name]);
  });

  it('says which exact measurements have no reference', () => {
    const { comparisons, alone } = judgeExactness(measured().filter(({ system }) => system !== 'resident'));
    expect(comparisons).toBe(0);
    expect(alone).toContain(LRU);
    expect(alone).not.toContain(PREDICTED);
  });
});
