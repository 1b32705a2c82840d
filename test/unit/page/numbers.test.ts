import { describe, expect, it } from 'vitest';
import {
  type BudgetCosts,
  budgetStep,
  loadSeconds,
  neededExperts,
  size,
  slowerTimes,
} from '../../../src/page/numbers.js';

it('writes sizes with the unit that fits', () => {
  expect([0, 1000, 1024, 36339712, 2 ** 34].map(size)).toEqual([
    '0 B',
    '1000 B',
    '1.0 KiB',
    '34.7 MiB',
    '16.0 GiB',
  ]);
});

it('counts the experts of peers and of the CPU among those needed', () => {
  expect(
    neededExperts({ resident: 1, prefetched: 20, late: 300, on_demand: 4000, peer: 50_000, cpu: 600_000 }),
  ).toBe(654_321);
});

describe('the price of a budget', () => {
  // 100 of 200 experts' bytes have room, a token needs 20, and the disk reads 100 a second.
  const costs: BudgetCosts = { budget: 150, fixed: 50, experts: 200, token: 20, disk: 100 };
  const measured = { budget: 150, seconds: 0.2 };

  it('counts the loads of a token by the share of experts without room', () => {
    expect(loadSeconds(costs, 50)).toBeCloseTo(0.2);
    expect(loadSeconds(costs, 150)).toBeCloseTo(0.1);
    expect(loadSeconds(costs, 250)).toBe(0);
    expect(loadSeconds(costs, 1000)).toBe(0);
  });

  it('adds them to the measured time of a token', () => {
    expect(slowerTimes(costs, 150, measured)).toBeCloseTo(1);
    expect(slowerTimes(costs, 50, measured)).toBeCloseTo(1.5);
    expect(slowerTimes(costs, 250, measured)).toBeCloseTo(0.5);
    // Less than all loads were waited for, so that more than their time cannot be saved.
    expect(slowerTimes(costs, 250, { budget: 150, seconds: 0.05 })).toBeCloseTo(0.1);
  });

  it('is that of the present budget once this has changed', () => {
    // 0.3 s within 50, 0.1 s within 250.
    expect(slowerTimes({ ...costs, budget: 50 }, 50, measured)).toBeCloseTo(1);
    expect(slowerTimes({ ...costs, budget: 50 }, 250, measured)).toBeCloseTo(1 / 3);
    expect(slowerTimes({ ...costs, budget: 250 }, 50, measured)).toBeCloseTo(3);
  });

  it('is unknown without a measurement of the token or of the disk', () => {
    expect(slowerTimes(costs, 50, undefined)).toBeUndefined();
    expect(slowerTimes({ ...costs, disk: 0 }, 50, measured)).toBeUndefined();
  });
});

it('gives back a round number of bytes', () => {
  expect(budgetStep(21233664)).toBe(4 * 2 ** 20);
  expect(budgetStep(20 * 2 ** 30)).toBe(4 * 2 ** 30);
});
