import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { epochBatches, evaluationBatches } from '../../../../src/predictor/training/batches.js';

const lengths = fc
  .array(fc.integer({ min: 1, max: 60 }), { maxLength: 300 })
  .map((list) => Int32Array.from(list));
const limits = fc.record({
  batch: fc.integer({ min: 1, max: 20 }),
  batchTokens: fc.constantFrom(0, 1, 50, 200),
});
const plain = (batches: Int32Array[]) => batches.map((batch) => [...batch]);

describe('the batches of an epoch', () => {
  it('contain every sequence once, within both limits', () => {
    fc.assert(
      fc.property(lengths, limits, fc.nat(), (all, limit, seed) => {
        for (const batches of [epochBatches(all, limit, seed, 3), evaluationBatches(all, limit)]) {
          const order = batches.flatMap((batch) => [...batch]);
          expect(order.sort((a, b) => a - b)).toEqual([...all.keys()]);
          for (const batch of batches) {
            expect(batch.length).toBeLessThanOrEqual(limit.batch);
            const tokens = batch.reduce((sum, place) => sum + all[place]!, 0);
            if (limit.batchTokens > 0 && batch.length > 1)
              expect(tokens).toBeLessThanOrEqual(limit.batchTokens);
          }
        }
      }),
    );
  });

  it('depend only on seed and epoch', () => {
    const all = Int32Array.from({ length: 500 }, (_, i) => 1 + ((i * 37) % 41));
    const of = (seed: number, epoch: number) =>
      plain(epochBatches(all, { batch: 8, batchTokens: 0 }, seed, epoch));
    expect(of(1, 0)).toEqual(of(1, 0));
    expect(of(1, 0)).not.toEqual(of(1, 1));
    expect(of(1, 0)).not.toEqual(of(2, 0));
  });

  it('hold sequences of similar length and are not ordered by length', () => {
    const all = Int32Array.from({ length: 4096 }, (_, i) => 1 + ((i * 2654435761) % 64));
    const batches = epochBatches(all, { batch: 16, batchTokens: 0 }, 1, 0);
    const spread = batches.map((batch) => {
      const own = [...batch].map((place) => all[place]!);
      return Math.max(...own) - Math.min(...own);
    });
    expect(spread.reduce((sum, n) => sum + n, 0) / spread.length).toBeLessThan(4);
    const first = batches.slice(0, 8).map((batch) => all[batch[0]!]!);
    expect(first).not.toEqual([...first].sort((a, b) => a - b));
  });
});
