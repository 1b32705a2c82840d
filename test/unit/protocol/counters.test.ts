import { expect, it } from 'vitest';
import { FOUND, type RunStats } from '../../../src/native/addon-types.js';
import { addPass, COUNTERS, noCounts } from '../../../src/protocol/counters.js';

const STATS: RunStats = {
  needed: 40,
  resident: 10,
  prefetched: 9,
  late: 8,
  onDemand: 13,
  peer: 4,
  cpu: 3,
  prefetchesBegun: 7,
  prefetchesForeseen: 2,
  prefetchesCancelled: 6,
  prefetchesWasted: 5,
  bytesMoved: 4096,
  stallNs: 2e9,
  peerWaitNs: 1e9,
  devicePasses: 1,
  diskReads: 4,
  diskBytes: 8192,
  overtakes: 3,
  passNs: 5e9,
};

it('sums passes and converts nanoseconds to seconds', () => {
  const sums = noCounts();
  addPass(sums, STATS, 20);
  addPass(sums, STATS, 1);
  expect(sums).toEqual({
    ...noCounts(),
    passes: 2,
    devicePasses: 2,
    tokens: 21,
    expertsNeeded: 80,
    expertsResident: 20,
    expertsPrefetched: 18,
    expertsLate: 16,
    expertsOnDemand: 26,
    expertsPeer: 8,
    expertsCpu: 6,
    bytesMoved: 8192,
    diskReads: 8,
    overtakes: 6,
    stallSeconds: 4,
    peerWaitSeconds: 2,
    passSeconds: 10,
    prefetchesBegun: 14,
    prefetchesForeseen: 4,
    prefetchesCancelled: 12,
    prefetchesWasted: 10,
  });
});

it('exports each counter in one metric, and covers each way of finding a needed expert', () => {
  const metrics = COUNTERS.map(([, { metric }]) => ('name' in metric ? metric.name : metric.found));
  expect(new Set(metrics).size).toBe(metrics.length);
  const [, ...used] = FOUND;
  expect(metrics.filter((metric) => !metric.startsWith('sida_'))).toEqual(used);
});
