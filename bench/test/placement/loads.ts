import fc from 'fast-check';
import type { LoadMatrix } from '../../src/placement/load-matrix.js';

export const rows = (...loads: number[][]): LoadMatrix => loads.map((row) => Float64Array.from(row));

/** Batches of 1 to 12 experts, each row adding up to 1. */
export const anyLoads: fc.Arbitrary<LoadMatrix> = fc.integer({ min: 1, max: 12 }).chain((experts) =>
  fc.array(
    fc.array(fc.nat({ max: 9 }), { minLength: experts, maxLength: experts }).map((counts) => {
      const all = counts.reduce((sum, count) => sum + count, 0);
      return Float64Array.from(counts, (count) => (all === 0 ? 1 / experts : count / all));
    }),
    { minLength: 1, maxLength: 8 },
  ),
);

/** Loads with a number of devices that each get an expert. */
export const anyTask = anyLoads.chain((loads) =>
  fc.record({ loads: fc.constant(loads), devices: fc.integer({ min: 1, max: loads[0]!.length }) }),
);
