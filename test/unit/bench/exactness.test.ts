import { describe, expect, it } from 'vitest';
import { judgeExactness } from '../../../src/bench/exactness.js';
import type { CellResult } from '../../../src/bench/result.js';
import { resultOf, sampleOf } from './fixture.js';

const at = (cells: CellResult[], name: string) => cells.find((cell) => cell.name === name)!;
const LRU = 'switch-mini/sst2/20%/disk/lru';

describe('judgeExactness', () => {
  it('compares each sample of exact systems, over both links, and REST with REST', () => {
    const { cells } = resultOf();
    const exact = cells.filter(({ system }) => system !== 'predicted');
    expect(judgeExactness(cells)).toEqual({ comparisons: 3 * exact.length, differing: [], alone: [] });
  });

  it('names a cell of which one sample differs', () => {
    const { cells } = resultOf();
    at(cells, LRU).samples[1] = sampleOf({ digest: 'd'.repeat(64) });
    expect(judgeExactness(cells).differing).toEqual([LRU]);
  });

  it('holds a second resident run to the first', () => {
    const { cells } = resultOf();
    const name = 'switch-mini/sst2/100%/simulated-12GBps/resident';
    at(cells, name).samples[2] = sampleOf({ digest: 'd'.repeat(64) });
    expect(judgeExactness(cells).differing).toEqual([name]);
  });

  it('says which exact cells have no reference', () => {
    const { cells } = resultOf();
    const without = cells.filter(({ system }) => system !== 'resident');
    const verdict = judgeExactness(without);
    expect(verdict.comparisons).toBe(0);
    expect(verdict.alone).toContain(LRU);
    expect(verdict.alone).not.toContain('switch-mini/sst2/20%/disk/predicted');
  });

  it('does not compare a run over REST that lacks answers', () => {
    const { cells } = resultOf();
    at(cells, 'switch-mini/sst2/20%/disk/rest-50/lstm').samples[0] = sampleOf({ digest: '', refused: 3 });
    expect(judgeExactness(cells).differing).toEqual([]);
  });
});
