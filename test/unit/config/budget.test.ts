import { expect, it } from 'vitest';
import { budgetBytes, hostBudgetBytes } from '../../../src/config/budget.js';
import type { MemoryPlan } from '../../../src/native/addon-types.js';

/** A GPU's pages are larger than the host's: a slot takes more than the expert in it. */
const plan = {
  experts: 10,
  slot: 4000,
  block: 2500,
  expertBytes: 40_000,
  fixed: 700,
  smallest: 4700,
} as MemoryPlan;

it('takes a share of the device from what slots take there', () => {
  expect(budgetBytes('50%', plan)).toBe(700 + 20_000);
  expect(budgetBytes('1%', plan)).toBe(4700);
  expect(budgetBytes('2KiB', plan)).toBe(2048);
});

it('takes a share of the host from what experts take there', () => {
  expect(hostBudgetBytes('50%', plan)).toBe(12_500);
  expect(hostBudgetBytes('100%', plan)).toBe(25_000);
  expect(hostBudgetBytes('2KiB', plan)).toBe(2048);
});
