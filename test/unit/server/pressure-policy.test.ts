import { expect, it } from 'vitest';
import { PressurePolicy } from '../../../src/server/budget/pressure-policy.js';

const MIB = 1024 ** 2;
const RANGE = { least: 100 * MIB, most: 1000 * MIB };

/** A machine where the server and another program share 1,600 MiB. The budgets held, second by second. */
function run(other: (second: number) => number, seconds: number): number[] {
  const policy = new PressurePolicy();
  let budget = RANGE.most;
  return Array.from({ length: seconds }, (_, second) => {
    const freeBytes = 1600 * MIB - budget - other(second);
    budget = Math.min(RANGE.most, policy.ceiling({ freeBytes, stalled: 0 }, budget, RANGE));
    return budget;
  });
}

it('gives memory back while another program takes it, and takes it again slowly', () => {
  const budgets = run((second) => (second >= 10 && second < 60 ? 600 * MIB : 0), 120);
  expect(budgets[9]).toBe(RANGE.most);
  expect(budgets[11]).toBeLessThanOrEqual(500 * MIB);
  // Nothing moves while the other program stays.
  expect(new Set(budgets.slice(12, 60)).size).toBe(1);
  expect(budgets[65]).toBe(budgets[59]);
  const rising = budgets.slice(60);
  expect(rising.every((budget, i) => i === 0 || budget >= rising[i - 1]!)).toBe(true);
  expect(Math.max(...rising.map((budget, i) => (i === 0 ? 0 : budget - rising[i - 1]!)))).toBeLessThanOrEqual(
    50 * MIB,
  );
  expect(budgets.at(-1)).toBe(RANGE.most);
});

it('keeps the smallest budget when memory stays short', () => {
  expect(run(() => 1500 * MIB, 30).at(-1)).toBe(RANGE.least);
});

it('gives back when tasks wait for memory, however much is free', () => {
  const policy = new PressurePolicy();
  const stalled = { freeBytes: 8000 * MIB, stalled: 12 };
  expect(policy.ceiling(stalled, RANGE.most, RANGE)).toBe(950 * MIB);
  expect(policy.ceiling(stalled, 950 * MIB, RANGE)).toBe(900 * MIB);
  expect(policy.ceiling({ ...stalled, stalled: 5 }, 900 * MIB, RANGE)).toBe(900 * MIB);
});

it('shares what is short and what is free among the models of a server', () => {
  const [alone, shared] = [new PressurePolicy(), new PressurePolicy(4)];
  const short = { freeBytes: 112 * MIB, stalled: 0 };
  expect(alone.ceiling(short, RANGE.most, RANGE)).toBe(600 * MIB);
  expect(shared.ceiling(short, RANGE.most, RANGE)).toBe(900 * MIB);
  // 120 MiB are free beyond what stays free: less than a step for each of four.
  const free = { freeBytes: 632 * MIB, stalled: 0 };
  for (let second = 0; second < 20; second += 1) {
    alone.ceiling(free, 600 * MIB, RANGE);
    shared.ceiling(free, 900 * MIB, RANGE);
  }
  expect(alone.ceiling(free, 600 * MIB, RANGE)).toBeGreaterThan(600 * MIB);
  expect(shared.ceiling(free, 900 * MIB, RANGE)).toBe(900 * MIB);
});
