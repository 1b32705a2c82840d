import { describe, expect, it } from 'vitest';
import { sampleTokens, splitHeldOut } from '../../../../src/predictor/training/split.js';

describe('the held-out share', () => {
  it('splits the sequences, the same way for the same seed', () => {
    const { train, heldOut } = splitHeldOut(10_000, 0.02, 1);
    expect(heldOut.length).toBe(200);
    expect([...train, ...heldOut].sort((a, b) => a - b)).toEqual([...Array(10_000).keys()]);
    expect(splitHeldOut(10_000, 0.02, 1).heldOut).toEqual(heldOut);
    expect(splitHeldOut(10_000, 0.02, 2).heldOut).not.toEqual(heldOut);
  });

  it('takes runs of neighbours from several places', () => {
    const { heldOut } = splitHeldOut(10_000, 0.02, 1);
    const gaps = heldOut.slice(1).filter((sequence, i) => sequence !== heldOut[i]! + 1).length;
    expect(gaps).toBeGreaterThan(3);
    expect(gaps).toBeLessThan(15);
  });

  it('is at least one sequence and never all', () => {
    expect(splitHeldOut(2, 0.0001, 1).heldOut.length).toBe(1);
    expect(splitHeldOut(3, 0.9, 1).train.length).toBe(1);
    expect(splitHeldOut(1, 0.5, 1).heldOut.length).toBe(0);
    expect(splitHeldOut(5, 0, 1).train.length).toBe(5);
  });
});

describe('a sample', () => {
  it('ends with the sequence that reaches the number of tokens', () => {
    const sequences = Int32Array.from({ length: 100 }, (_, i) => i * 2);
    const sample = sampleTokens(sequences, () => 10, 95, 7);
    expect(sample.length).toBe(10);
    expect([...sample]).toEqual([...new Set(sample)].sort((a, b) => a - b));
    expect(sampleTokens(sequences, () => 10, 5000, 7)).toEqual(sequences);
  });
});
