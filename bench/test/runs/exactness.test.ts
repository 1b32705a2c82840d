import { describe, expect, it } from 'vitest';
import { judgeExactness } from '../../src/runs/exactness.js';
import type { MeasurementResult } from '../../src/runs/result.js';
import { resultOf, sampleOf } from '../support/fixture.js';

const at = (measurements: MeasurementResult[], name: string) =>
  measurements.find((measurement) => measurement.name === name)!;
const LRU = 'switch-mini/sst2/20%/disk/lru';

describe('judgeExactness', () => {
  it('compares each sample of exact systems, over both links, and REST with REST', () => {
    const { measurements } = resultOf();
    const exact = measurements.filter(({ system }) => !['predicted', 'paper'].includes(system));
    expect(judgeExactness(measurements)).toEqual({ comparisons: 3 * exact.length, differing: [], alone: [] });
  });

  it('names a measurement of which one sample differs', () => {
    const { measurements } = resultOf();
    at(measurements, LRU).samples[1] = sampleOf({ digest: 'd'.repeat(64) });
    expect(judgeExactness(measurements).differing).toEqual([LRU]);
  });

  it('holds a second resident run to the first', () => {
    const { measurements } = resultOf();
    const name = 'switch-mini/sst2/100%/simulated-12GBps/resident';
    at(measurements, name).samples[2] = sampleOf({ digest: 'd'.repeat(64) });
    expect(judgeExactness(measurements).differing).toEqual([name]);
  });

  it('says which exact measurements have no reference', () => {
    const { measurements } = resultOf();
    const without = measurements.filter(({ system }) => system !== 'resident');
    const verdict = judgeExactness(without);
    expect(verdict.comparisons).toBe(0);
    expect(verdict.alone).toContain(LRU);
    expect(verdict.alone).not.toContain('switch-mini/sst2/20%/disk/predicted');
  });

  it('does not compare a run over REST that lacks answers', () => {
    const { measurements } = resultOf();
    at(measurements, 'switch-mini/sst2/20%/disk/rest-50/lstm').samples[0] = sampleOf({
      digest: '',
      refused: 3,
    });
    expect(judgeExactness(measurements).differing).toEqual([]);
  });
});
