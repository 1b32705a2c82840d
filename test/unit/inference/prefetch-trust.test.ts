import { expect, it } from 'vitest';
import { PrefetchTrust } from '../../../src/inference/prefetch-trust.js';

const pass = (prefetchesBegun: number, prefetchesWasted: number, prefetchesCancelled = 0) => {
  return { prefetchesBegun, prefetchesCancelled, prefetchesWasted };
};

/** Passes until it trusts again. */
function pause(trust: PrefetchTrust): number {
  let passes = 0;
  for (; !trust.trusts; passes++) trust.judge(pass(0, 0));
  return passes;
}

it('trusts as long as at least a third of the prefetches were of use', () => {
  const trust = new PrefetchTrust();
  for (let i = 0; i < 1000; i++) trust.judge(pass(6, 4));
  expect([trust.trusts, trust.distrusted]).toEqual([true, 0]);
});

it('does not judge by few prefetches', () => {
  const trust = new PrefetchTrust();
  for (let i = 0; i < 63; i++) trust.judge(pass(1, 1));
  expect(trust.trusts).toBe(true);
  trust.judge(pass(1, 1));
  expect(trust.trusts).toBe(false);
});

it('does not take prefetches for useful that were only taken back', () => {
  const trust = new PrefetchTrust();
  for (let i = 0; i < 64; i++) trust.judge(pass(2, 1, 1));
  expect(trust.trusts).toBe(false);
});

it('pauses twice as long each time, 64 times as long at most, and starts anew after a good stretch', () => {
  const trust = new PrefetchTrust();
  const pauses = () => {
    trust.judge(pass(64, 60));
    return pause(trust);
  };
  expect(Array.from({ length: 9 }, pauses)).toEqual([64, 128, 256, 512, 1024, 2048, 4096, 4096, 4096]);
  expect(trust.distrusted).toBe(64 + 128 + 256 + 512 + 1024 + 2048 + 3 * 4096);
  trust.judge(pass(64, 10));
  expect([trust.trusts, pauses()]).toEqual([true, 64]);
});
