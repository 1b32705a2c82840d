import { describe, expect, it } from 'vitest';
import { LinkLoad } from '../../../src/inference/link-load.js';

const GIB = 2 ** 30;
const disk = (bytesPerSecond: number) => ({
  disk: { direct: true, depth: 4, chunkBytes: 1, bytesPerSecond },
});
/** A pass of 100 ms that moved this many bytes. */
const pass = (bytesMoved: number, diskBytes = bytesMoved) => ({
  ...{ bytesMoved, diskBytes, passNs: 1e8 },
  ...{ prefetchesBegun: 2, onDemand: 2 },
});
const busyAfter = (load: LinkLoad, passes: number, stats: ReturnType<typeof pass>) => {
  for (let i = 0; i < passes; i++) load.judge(stats, 8);
  return load.state(100).busy;
};

describe('link load', () => {
  it('is limited by the slower of disk and simulated link', () => {
    const busy = (moved: number, read: number) =>
      busyAfter(new LinkLoad(disk(GIB), GIB / 4), 50, pass(moved * GIB, read * GIB));
    expect(busy(0.02, 0)).toBeCloseTo(0.8, 2);
    expect(busy(0.005, 0.1)).toBeCloseTo(1, 2);
  });

  it('depends on recent passes', () => {
    const load = new LinkLoad(disk(GIB), 0);
    busyAfter(load, 500, pass(0.09 * GIB));
    expect(busyAfter(load, 20, pass(0.01 * GIB))).toBeLessThan(0.2);
  });

  it('is busy while its rate is unknown, and then for the share of the time that its bytes take', () => {
    expect(new LinkLoad(disk(GIB), 0).state(100).busy).toBe(1);
    expect(busyAfter(new LinkLoad(disk(0), 0), 50, pass(0))).toBe(1);
    expect(busyAfter(new LinkLoad(disk(GIB), 0), 50, pass(0.02 * GIB))).toBeCloseTo(0.2, 2);
  });

  it('measures copies from host memory by the fastest pass so far', () => {
    const load = new LinkLoad(disk(GIB), 0);
    // The start fills all slots.
    load.judge(pass(4 * GIB, 0), 8);
    expect(busyAfter(load, 100, pass(3 * GIB, 0))).toBeCloseTo(0.75, 2);
  });

  it('knows how many visits an expert stays: slots over loads a visit', () => {
    const load = new LinkLoad(disk(GIB), 0);
    expect(load.state(100).stay).toBe(Number.POSITIVE_INFINITY);
    busyAfter(load, 50, pass(0.02 * GIB));
    expect(load.state(100).stay).toBeCloseTo(200, 6);
  });
});
