import { describe, expect, it } from 'vitest';
import {
  budgetBytes,
  budgetWarning,
  hostBudgetBytes,
  shareOf,
  splitBudget,
} from '../../../src/config/budget.js';
import type { MemoryPlan } from '../../../src/native/addon-types.js';

/** A GPU's pages are larger than the host's: a slot takes more than the expert in it. */
const plan = {
  experts: 10,
  slot: 4000,
  block: 2500,
  hostWorkspace: 100,
  expertBytes: 40_000,
  fixed: 700,
  smallest: 4700,
} as MemoryPlan;

it('takes a share of the device from what slots take there', () => {
  expect(budgetBytes('50%', plan)).toBe(700 + 20_000);
  expect(budgetBytes('1%', plan)).toBe(4700);
  expect(budgetBytes('2KiB', plan)).toBe(2048);
  for (const text of ['', 'much', '120%', '0%', '-1'])
    expect(() => budgetBytes(text, plan), text).toThrow(expect.objectContaining({ code: 'invalid_request' }));
});

it('takes a share of the host from what experts take there, beside what the CPU computes with', () => {
  expect(hostBudgetBytes('50%', plan)).toBe(12_600);
  expect(hostBudgetBytes('100%', plan)).toBe(25_100);
  expect(hostBudgetBytes('2KiB', plan)).toBe(2048);
});

const MIB = 1024 ** 2;
const model = (name: string, smallest: number, expertBytes: number) => ({
  name,
  plan: { smallest, expertBytes },
});

it('gives every model its smallest budget and shares the rest by the bytes of experts', () => {
  const models = [model('a', 10, 300), model('b', 20, 100), model('c', 5, 0)];
  expect(splitBudget(135, models)).toEqual([10 + 75, 20 + 25, 5]);
});

it('gives no more than the total, and each the smallest, at exactly the sum of the smallest', () => {
  const models = [model('a', 7 * MIB, 3), model('b', 3 * MIB + 1, 7)];
  expect(splitBudget(10 * MIB + 1, models)).toEqual([7 * MIB, 3 * MIB + 1]);
  for (let total = 10 * MIB + 1; total < 10 * MIB + 40; total++) {
    const parts = splitBudget(total, models);
    const sum = parts.reduce((all, part) => all + part, 0);
    expect(total - sum).toBeGreaterThanOrEqual(0);
    expect(total - sum).toBeLessThan(models.length);
  }
});

it('refuses a total below the sum of the smallest, with the bytes of each', () => {
  const split = () => splitBudget(9 * MIB, [model('a', 7 * MIB, 3), model('b', 3 * MIB, 7)]);
  expect(split).toThrow(
    'A budget of 9.00 MiB is too small for 2 models, which need 10.0 MiB together: a 7.00 MiB and b 3.00 MiB',
  );
  expect(split).toThrow(expect.objectContaining({ code: 'budget_too_small' }));
});

describe('a budget that the machine gives', () => {
  const needing = (name: string, smallest: number, resident: number) => ({
    name,
    plan: { smallest, resident, expertBytes: resident - smallest },
  });
  const models = [needing('a', 10, 310), needing('b', 20, 120)];

  it('gives models all that they need, where it can', () => {
    expect(shareOf(430, models)).toEqual([310, 120]);
    expect(shareOf(1000, models)).toEqual([310, 120]);
  });

  it('is split otherwise, and the sum of the smallest at least', () => {
    expect(shareOf(230, models)).toEqual([160, 70]);
    expect(shareOf(5, models)).toEqual([10, 20]);
  });
});

it('warns of a budget above what is free with both numbers', () => {
  expect(budgetWarning(20 * MIB, 20 * MIB)).toBeUndefined();
  expect(budgetWarning(500 * MIB, 20 * MIB)).toBe(
    'A budget of 500 MiB is more than the 20.0 MiB that this machine has free',
  );
});
