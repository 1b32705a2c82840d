import { describe, expect, it } from 'vitest';
import { PassExpectation } from '../../../src/inference/pass-expectation.js';

describe('the expected time of a pass', () => {
  it('is the mean of passes of its size, and lies between those of neighbouring sizes', () => {
    const expectation = new PassExpectation();
    for (const ms of [9, 11]) expectation.learn(0, 4, ms);
    expectation.learn(0, 100, 20);
    expectation.learn(0, 200, 30);
    expect(expectation.of(0, 4)).toBe(10);
    expect(expectation.of(0, 150)).toBe(25);
  });

  it('is unknown for other kinds, and for sizes beyond those that have run', () => {
    const expectation = new PassExpectation();
    expectation.learn(0, 100, 20);
    expect([expectation.of(1, 100), expectation.of(0, 50), expectation.of(0, 200)]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
    // Nearly the same size.
    expect(expectation.of(0, 102)).toBe(20);
  });

  it('follows a load that changes', () => {
    const expectation = new PassExpectation();
    for (let pass = 0; pass < 1000; pass++) expectation.learn(0, 16, 1);
    for (let pass = 0; pass < 300; pass++) expectation.learn(0, 16, 2);
    expect(expectation.of(0, 16)).toBeGreaterThan(1.98);
  });
});
