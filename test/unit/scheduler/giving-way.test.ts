import { describe, expect, it } from 'vitest';
import { givingWay } from '../../../src/scheduler/giving-way.js';
import type { RunningInput } from '../../../src/scheduler/running-input.js';

const chosen = (owners: string) => {
  const inputs = [...owners].map((owner, order) => ({ owner, order }) as RunningInput);
  const way = givingWay(inputs);
  return way && [way.input.order, way.ofOwner];
};

describe('the input that gives way', () => {
  it('is the youngest of the owner that has most', () => {
    expect([chosen('aaab'), chosen('baaa'), chosen('abababaa')]).toEqual([
      [2, 3],
      [3, 3],
      [7, 5],
    ]);
  });

  it('is the youngest of all where owners have equally many, so never the oldest', () => {
    expect([chosen('aabb'), chosen('abba'), chosen('ab'), chosen('a')]).toEqual([
      [3, 2],
      [3, 2],
      [1, 1],
      [0, 1],
    ]);
    expect(chosen('')).toBeUndefined();
  });
});
