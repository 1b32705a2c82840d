// Scripted passes: their times are given to the governor, so that minutes of serving take milliseconds.
import { describe, expect, it } from 'vitest';
import { Governor } from '../../../src/inference/governor.js';
import { type Load, randomFrom, run } from './simulated-load.js';

/** The bound that src/inference/governor.ts promises. */
const MOST_LOSS = 0.01;
const SEEDS = Array.from({ length: 10 }, (_, seed) => seed + 1);
const millisecond: Load = { ms: () => 1, factor: 1, noise: 0.2 };

function states(load: Load, seconds: number, seed = 1) {
  const seen: string[] = [];
  const governor: Governor = new Governor(() => seen.push(governor.figures.state));
  const loss = run(governor, load, seconds, randomFrom(seed));
  return { governor, seen, loss };
}

describe('the governor', () => {
  it('keeps prediction that saves 20 %, and loses at most 1 % to probes', () => {
    for (const seed of SEEDS) {
      const { governor, seen, loss } = states({ ...millisecond, factor: 0.8 }, 120, seed);
      expect(new Set(seen.filter((state) => state !== 'probing'))).toEqual(new Set(['active']));
      expect(governor.figures.gain!.low).toBeGreaterThan(0);
      expect(loss).toBeLessThan(MOST_LOSS);
      expect(governor.figures.switches).toBe(0);
    }
  });

  it('lets prediction rest that costs 5 %, within one probe of 32 windows, and loses at most 1 % to probes', () => {
    for (const seed of SEEDS) {
      const { seen, governor, loss } = states({ ...millisecond, factor: 1.05 }, 120, seed);
      expect(seen[0]).toBe('resting');
      const first = new Governor();
      run(first, { ...millisecond, factor: 1.05 }, 5, randomFrom(seed));
      const { predict, rest } = first.figures.arms;
      expect(predict.windows + rest.windows).toBeLessThanOrEqual(32);
      expect(seen).not.toContain('active');
      expect(loss).toBeLessThan(MOST_LOSS);
      expect(governor.figures.gain!.mean).toBeLessThan(0);
    }
  });

  it('loses at most 1 % after its first probe, however much prediction costs', () => {
    for (const factor of [1.5, 3, 10]) {
      const governor = new Governor();
      const random = randomFrom(3);
      run(governor, { ...millisecond, factor }, 30, random);
      expect(run(governor, { ...millisecond, factor }, 600, random)).toBeLessThan(MOST_LOSS);
    }
  });

  it('loses little more before its first answer, however late that comes', () => {
    for (const factor of [1.2, 1.5, 3]) {
      const governor = new Governor();
      const random = randomFrom(4);
      const load = { ...millisecond, noise: 1, factor };
      const first = run(governor, load, 2, random) * 2;
      for (let lost = first, seconds = 2; seconds < 40; seconds += 2) {
        expect(lost).toBeLessThan(0.1 + MOST_LOSS * seconds);
        lost += run(governor, load, 2, random) * 2;
      }
    }
  });

  it('takes a stall of a second for no more than a slow window', () => {
    for (const seed of SEEDS) {
      let stalls = 0;
      const once = (_: unknown, rests: boolean) => (!rests && stalls++ === 30 ? 1_000 : 0);
      const { seen, loss } = states({ ...millisecond, factor: 0.7, stall: once }, 20, seed);
      expect(seen[0]).toBe('active');
      // Of 0.3 at most: it may rest for six seconds.
      expect(loss).toBeLessThan(0.15);
    }
  });

  it('keeps what pays running beside rare stalls', () => {
    for (const seed of SEEDS) {
      const governor = new Governor();
      const random = randomFrom(seed);
      const load = {
        ...millisecond,
        factor: 0.7,
        stall: (next: () => number) => (next() < 1 / 20_000 ? 300 : 0),
      };
      run(governor, load, 60, random);
      expect(governor.pays).toBe(true);
      expect(run(governor, load, 600, random)).toBeLessThan(2 * MOST_LOSS);
    }
  });

  it('does the same where a pass takes a second', () => {
    const slow = { ms: () => 1000, noise: 0.1 };
    const pays = states({ ...slow, factor: 0.8 }, 7200);
    expect([pays.governor.pays, pays.governor.figures.switches]).toEqual([true, 0]);
    const costs = states({ ...slow, factor: 1.3 }, 7200);
    expect(costs.seen).not.toContain('active');
    expect(costs.loss).toBeLessThan(MOST_LOSS);
  });

  it('rests where tables change nothing, and seldom changes its mind', () => {
    let switches = 0;
    let active = 0;
    for (const seed of SEEDS) {
      const { governor, seen } = states(millisecond, 300, seed);
      switches += governor.figures.switches;
      active += seen.filter((state) => state === 'active').length;
      expect(seen.length).toBeLessThan(24);
    }
    expect(switches / SEEDS.length).toBeLessThan(1);
    expect(active / SEEDS.length).toBeLessThan(1);
  });

  it('wakes when the load changes so that prediction pays, and rests when it no longer does', () => {
    const governor = new Governor();
    const random = randomFrom(5);
    run(governor, { ...millisecond, factor: 1.1 }, 60, random);
    expect(governor.pays).toBe(false);
    run(governor, { ...millisecond, factor: 0.7 }, 1200, random);
    expect([governor.pays, governor.figures.switches]).toEqual([true, 1]);
    run(governor, { ...millisecond, factor: 1.1 }, 1200, random);
    expect([governor.pays, governor.figures.switches]).toEqual([false, 2]);
  });

  it('is not fooled by passes whose sizes differ by arm', () => {
    // Larger passes run with tables, so that their mean is twice that of the others.
    const tokens = (random: () => number, rests: boolean) =>
      random() < (rests ? 0.8 : 0.2) ? 8 + Math.floor(random() * 8) : 48 + Math.floor(random() * 16);
    const load = { ms: (size: number) => 0.5 + Math.sqrt(size) / 8, tokens, noise: 0.2 };
    for (const seed of SEEDS.slice(0, 5)) {
      const saves = states({ ...load, factor: 0.8 }, 60, seed).governor.figures;
      expect(saves.state).toBe('active');
      expect(Math.abs(saves.gain!.mean - 0.2)).toBeLessThan(0.05);
      const costs = states({ ...load, factor: 1.1 }, 60, seed).governor.figures;
      expect(costs.gain!.mean).toBeLessThan(-0.03);
    }
  });

  it('is not fooled by a load that becomes slower all the time', () => {
    let passes = 0;
    const load = { factor: 0.9, noise: 0.05, ms: () => 1 + passes++ / 1000 };
    const { state, gain } = states(load, 3).governor.figures;
    expect(state).toBe('active');
    expect(Math.abs(gain!.mean - 0.1)).toBeLessThan(0.05);
  });

  it('doubles its pauses while probes agree, up to a bound', () => {
    const pauses: number[] = [];
    const governor: Governor = new Governor(() => {
      const { state, pauseSeconds } = governor.figures;
      if (state === 'resting') pauses.push(pauseSeconds);
    });
    run(governor, { ms: () => 10, factor: 1.2 }, 3600, randomFrom(7));
    const [first, ...rest] = pauses as [number, ...number[]];
    // The first probe is longer, because it begins with a warm-up.
    expect(rest.slice(1, 4).map((pause, i) => pause / rest[i]!)).toEqual([2, 2, 2]);
    expect([first > 2, rest.at(-1)! <= 600]).toEqual([true, true]);
  });

  it('measures again after a change of the memory for experts', () => {
    const { governor } = states({ ...millisecond, factor: 1.2 }, 60);
    governor.restart();
    expect(governor.figures.state).toBe('probing');
    run(governor, { ...millisecond, factor: 0.7 }, 10, randomFrom(2));
    expect(governor.figures.state).toBe('active');
  });

  it('waits after a change of arm until batches that were prepared before it have run', () => {
    const governor = new Governor();
    for (let pass = 0; pass < 30; pass++) governor.passed({ kind: 0, tokens: 16, ms: 100 }, false);
    expect(governor.figures.arms.predict.passes).toBe(0);
    for (let pass = 0; pass < 4; pass++) governor.passed({ kind: 0, tokens: 16, ms: 100 }, true);
    expect(governor.figures.arms.predict).toEqual({ windows: 1, passes: 4, tokens: 64, seconds: 0.4 });
    expect(governor.rests).toBe(true);
  });
});
