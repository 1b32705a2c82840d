// Costs of passes: from the shape of a model, and from what passes took.
import { describe, expect, it } from 'vitest';
import type { RunStats } from '../../../src/native/addon-types.js';
import { noSums, PassMeter, passCost, passKind, type StackCost } from '../../../src/quote/pass-rates.js';

const STACK: StackCost = { layerExperts: [64, 64], topK: 8, dense: 4_000, expertBytes: 100 };
const PRIOR = { absent: 0.5, loadSeconds: 0 };

const stats = (own: Partial<RunStats>): RunStats => ({
  ...{ needed: 16, resident: 0, prefetched: 0, late: 0, onDemand: 0, prefetchesBegun: 0 },
  ...{ prefetchesForeseen: 0, prefetchesCancelled: 0, prefetchesWasted: 0, bytesMoved: 0, devicePasses: 0 },
  ...{ peer: 0, cpu: 0, stallNs: 0, peerWaitNs: 0, diskReads: 0, diskBytes: 0, overtakes: 0, passNs: 1e6 },
  ...own,
});

describe('before any pass', () => {
  it('a token needs the experts that its routers choose, and many tokens nearly all', () => {
    const need = (tokens: number) => passCost(STACK, noSums(), tokens, PRIOR).needed;
    expect(need(1)).toBeCloseTo(16);
    expect(need(2)).toBeCloseTo(2 * 64 * (1 - (56 / 64) ** 2));
    expect(need(1_000)).toBeCloseTo(128);
  });

  it('experts miss as often as they are absent, and their loads take what the disk says', () => {
    const { bytes, seconds } = passCost(STACK, noSums(), 1, PRIOR);
    expect(bytes).toBeCloseTo(16 * 0.5 * 100);
    const slow = passCost(STACK, noSums(), 1, { absent: 0.5, loadSeconds: 0.01 });
    expect(slow.seconds - seconds).toBeCloseTo(16 * 0.5 * 100 * 0.01);
  });
});

describe('after passes', () => {
  const kind = passKind(0, 2, 1);
  const measured = (seconds: (tokens: number) => number, own: Partial<RunStats> = {}) => {
    const meter = new PassMeter([STACK], () => 0);
    for (let pass = 0; pass < 200; pass += 1) {
      const tokens = 8 + (pass % 5) * 30;
      const { needed } = passCost(STACK, noSums(), tokens, PRIOR);
      meter.add({ stack: 0, tokens, sequences: 1 }, stats({ needed, passNs: seconds(tokens) * 1e9, ...own }));
    }
    return meter.rates(64).sums[kind]!;
  };

  it('tells the time that tokens take from the time that weights take', () => {
    const time = (tokens: number) => {
      const { needed } = passCost(STACK, noSums(), tokens, PRIOR);
      return 2e-6 * (STACK.dense + needed * STACK.expertBytes) + 5e-4 * tokens;
    };
    const sums = measured(time);
    for (const tokens of [4, 64, 400])
      expect(passCost(STACK, sums, tokens, PRIOR).seconds / time(tokens)).toBeCloseTo(1, 2);
  });

  it('counts misses and their waits apart from the work', () => {
    const sums = measured(() => 0.02, { needed: 100, late: 10, onDemand: 10, stallNs: 1e7 });
    const { bytes, seconds } = passCost(STACK, sums, 68, PRIOR);
    expect(bytes / 100).toBeCloseTo(20, -1);
    expect(seconds).toBeGreaterThan(0.017);
    expect(seconds).toBeLessThan(0.023);
  });

  it('counts waits for peers as work, because they come with every pass', () => {
    const sums = measured(() => 0.02, { needed: 100, peer: 100, stallNs: 1e7, peerWaitNs: 1e7 });
    const { seconds } = passCost(STACK, sums, 68, PRIOR);
    expect(seconds).toBeGreaterThan(0.019);
    expect(seconds).toBeLessThan(0.022);
  });

  it('expects more misses among the rarer experts, which only many tokens need', () => {
    const meter = new PassMeter([STACK], () => 0);
    for (let pass = 0; pass < 100; pass += 1) {
      const tokens = 2 + (pass % 5) * 30;
      const { needed } = passCost(STACK, noSums(), tokens, PRIOR);
      meter.add(
        { stack: 0, tokens, sequences: 1 },
        stats({ needed, onDemand: needed * (0.1 + (0.6 * needed) / 128) }),
      );
    }
    const sums = meter.rates(64).sums[kind]!;
    expect(passCost(STACK, sums, 2, PRIOR).bytes / 100).toBeCloseTo(30 * (0.1 + (0.6 * 30) / 128), 0);
    expect(passCost(STACK, sums, 500, PRIOR).bytes / 100).toBeCloseTo(128 * 0.7, 0);
  });

  it('learns that tokens share experts', () => {
    const sums = measured(() => 0.01, { needed: 20 });
    expect(passCost(STACK, sums, 68, PRIOR).needed).toBeLessThan(30);
    expect(passCost(STACK, sums, 1, PRIOR).needed).toBeCloseTo(16);
  });

  it('needs fewer experts for many tokens where some experts are popular', () => {
    const shares = Array.from({ length: 64 }, (_, expert) => 0.9 / (1 + expert) ** 0.7);
    const need = (tokens: number) => 2 * shares.reduce((sum, share) => sum + 1 - (1 - share) ** tokens, 0);
    const meter = new PassMeter([STACK], () => 0);
    for (let pass = 0; pass < 100; pass += 1) {
      const tokens = [4, 16, 64][pass % 3]!;
      meter.add({ stack: 0, tokens, sequences: 1 }, stats({ needed: need(tokens) }));
    }
    const sums = meter.rates(64).sums[kind]!;
    for (const tokens of [2, 8, 32, 256]) {
      const expected = passCost(STACK, sums, tokens, PRIOR).needed / need(tokens);
      expect(Math.abs(expected - 1)).toBeLessThan(0.02);
    }
  });

  it('scales the shape where all passes were alike', () => {
    const meter = new PassMeter([STACK], () => 0);
    for (let pass = 0; pass < 100; pass += 1)
      meter.add({ stack: 0, tokens: 1, sequences: 1 }, stats({ passNs: 3e6 }));
    const sums = meter.rates(64).sums[passKind(0, 1, 1)]!;
    const [one, four] = [1, 4].map((tokens) => passCost(STACK, sums, tokens, PRIOR).seconds);
    expect(one).toBeCloseTo(0.003, 4);
    expect(four).toBeGreaterThan(1.3 * one!);
    expect(four).toBeLessThan(4 * one!);
  });

  it('counts the time between passes, but no rest', () => {
    let now = 0;
    const meter = new PassMeter([STACK], () => now);
    for (let pass = 0; pass < 300; pass += 1) {
      now += 5;
      meter.add({ stack: 0, tokens: 1, sequences: 1 }, stats({ passNs: 3e6 }));
      if (pass % 20 !== 19) continue;
      now += 10_000;
      meter.rested();
    }
    const { seconds } = passCost(STACK, meter.rates(64).sums[passKind(0, 1, 1)]!, 1, PRIOR);
    expect(seconds).toBeGreaterThan(0.0045);
    expect(seconds).toBeLessThan(0.005);
  });

  it('follows a change within some 50 passes', () => {
    const meter = new PassMeter([STACK], () => 0);
    const run = (count: number, onDemand: number) => {
      for (let pass = 0; pass < count; pass += 1)
        meter.add({ stack: 0, tokens: 1, sequences: 1 }, stats({ onDemand }));
      return passCost(STACK, meter.rates(64).sums[passKind(0, 1, 1)]!, 1, PRIOR).bytes / 1_600;
    };
    expect(run(300, 16)).toBeGreaterThan(0.98);
    expect(run(150, 0)).toBeLessThan(0.06);
  });
});
