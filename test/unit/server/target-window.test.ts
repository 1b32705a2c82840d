import { expect, it } from 'vitest';
import { TargetWindow } from '../../../src/server/budget/target-window.js';

it('compares p95 of answers, and the mean time of tokens, and the worst counts', () => {
  const window = new TargetWindow({ answer: 100, token: 50 });
  window.begin(0);
  for (let i = 1; i <= 100; i += 1) {
    window.add('answer', i, 500);
    window.add('token', 60, 500);
    window.add('firstToken', 1e6, 1e7);
  }
  expect(window.take(999)).toBeUndefined();
  expect(window.take(1000)).toBeCloseTo(60 / 50);
  for (let i = 1; i <= 100; i += 1) {
    window.add('answer', 2 * i, 1500);
    window.add('token', 60, 1500);
  }
  expect(window.take(2000)).toBeCloseTo(190 / 100);
});

it('waits for a few times, and then not for more than a while', () => {
  const window = new TargetWindow({ firstToken: 100 });
  window.begin(0);
  for (let i = 0; i < 4; i += 1) window.add('firstToken', 50, 900);
  expect(window.take(60_000)).toBeUndefined();
  window.add('firstToken', 50, 60_000);
  expect(window.take(60_000)).toBe(0.5);
});

it('leaves out what began with another budget', () => {
  const window = new TargetWindow({ answer: 100 });
  window.begin(1000);
  for (let i = 0; i < 40; i += 1) {
    window.add('answer', 300, 1200);
    window.add('answer', 80, 1200);
  }
  expect(window.take(2000)).toBe(0.8);
});

it('counts what was cut short when it had missed the target, and else leaves it out', () => {
  const window = new TargetWindow({ answer: 100 });
  window.begin(0);
  for (let i = 0; i < 40; i += 1) {
    window.add('answer', 90, 500, true);
    window.add('answer', 250, 500, true);
  }
  expect(window.take(2000)).toBe(2.5);
});
