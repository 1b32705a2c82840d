import { expect, it } from 'vitest';
import { StateMean } from '../../../src/scheduler/state-mean.js';

const states = Float32Array.of(1, 2, 3, 5, 8, 13, 0.1, 0.2);

it('is the mean over tokens, the same in whatever chunks they come', () => {
  const whole = new StateMean();
  whole.add(states, 4);
  const chunks = new StateMean();
  chunks.add(states.subarray(0, 2), 1);
  chunks.add(states.subarray(2), 3);
  expect(whole.values()).toEqual(chunks.values());
  expect(whole.values().map((value) => value.toFixed(3))).toEqual(['3.025', '5.050']);
});

it('refuses states that are not finite', () => {
  const mean = new StateMean();
  mean.add(Float32Array.of(1, Number.NaN), 1);
  expect(() => mean.values()).toThrow(expect.objectContaining({ code: 'nonfinite_output' }));
});
