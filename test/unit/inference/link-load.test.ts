import { describe, expect, it } from 'vitest';
import { LinkLoad } from '../../../src/inference/link-load.js';

const GIB = 2 ** 30;
const disk = (...rates: number[]) => ({
  disk: rates.map((bytesPerSecond) => ({ direct: true, depth: 4, chunkBytes: 1, bytesPerSecond })),
});
/** A pass of 100 ms that moved this many bytes. */
const pass = (bytesMoved: number, diskBytes = bytesMoved) => ({ bytesMoved, diskBytes, passNs: 1e8 });
const spareAfter = (load: LinkLoad, passes: number, stats: ReturnType<typeof pass>) => {
  for (let i = 0; i < passes; i++) load.judge(stats);
  return load.spare;
};

describe('link load', () => {
  it('has no spare time before the first pass, nor if a rate is unknown', () => {
    expect(new LinkLoad(disk(GIB), 0).spare).toBe(false);
    expect(spareAfter(new LinkLoad(disk(GIB, 0), 0), 50, pass(0))).toBe(false);
  });

  it('has spare time below 50 % of the rate, and keeps it up to 85 %', () => {
    const load = new LinkLoad(disk(GIB), 0);
    expect(spareAfter(load, 50, pass(0.07 * GIB))).toBe(false);
    expect(spareAfter(load, 50, pass(0.04 * GIB))).toBe(true);
    expect(spareAfter(load, 50, pass(0.08 * GIB))).toBe(true);
    expect(spareAfter(load, 50, pass(0.09 * GIB))).toBe(false);
  });

  it('adds up the rates of several disks', () => {
    expect(spareAfter(new LinkLoad(disk(GIB, GIB), 0), 50, pass(0.08 * GIB))).toBe(true);
  });

  it('is limited by the slower of disk and simulated link', () => {
    const load = new LinkLoad(disk(GIB), GIB / 4);
    expect(spareAfter(load, 50, pass(0.02 * GIB, 0))).toBe(false);
    expect(spareAfter(load, 50, pass(0.005 * GIB, 0))).toBe(true);
    expect(spareAfter(load, 50, pass(0.005 * GIB, 0.1 * GIB))).toBe(false);
  });

  it('depends on recent passes', () => {
    const load = new LinkLoad(disk(GIB), 0);
    spareAfter(load, 500, pass(0.09 * GIB));
    expect(spareAfter(load, 20, pass(0.01 * GIB))).toBe(true);
  });
});
