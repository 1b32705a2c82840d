// A plant whose times grow as the budget shrinks, with loads that step, ramp and are noisy.
import { describe, expect, it } from 'vitest';
import { TargetController } from '../../../src/server/budget/target-controller.js';

const RANGE = { least: 1e9, most: 10e9 };
/** A busy server has windows of one second. A slow server has windows of 2.5 seconds. */
const WINDOW_SECONDS = 1;

type Plant = (budget: number, load: number) => number;

/** Loads of experts take time in proportion to those that have no slot. */
const linear: Plant = (budget, load) => load * (0.4 + 1.6 * (1 - (budget - 1e9) / 9e9));
/** Queues grow as the server comes near its limit. */
const steep: Plant = (budget, load) => load * (3e9 / budget) ** 2;
/** Below the recency floor every token misses. */
const cliff: Plant = (budget, load) => (budget < 4e9 * load ? 3 : 0.5 * load);

/** The smallest budget that meets the target, found by a sweep; the most where none does. */
function smallest(plant: Plant, load: number): number {
  for (let budget = RANGE.least; budget < RANGE.most; budget *= 1.001)
    if (plant(budget, load) <= 1) return budget;
  return RANGE.most;
}

/** Random numbers of a normal distribution, the same in every run. */
function noise(seed: number): () => number {
  let state = seed;
  const uniform = () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return (state + 1) / 2 ** 32;
  };
  return () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform());
}

/** The budget after each window. */
function run(
  plant: Plant,
  load: (window: number) => number,
  windows: number,
  spread = 0,
  seed = 1,
): number[] {
  const normal = noise(seed);
  const controller = new TargetController(RANGE.most);
  const budgets: number[] = [];
  let budget = RANGE.most;
  for (let window = 0; window < windows; window += 1) {
    const ratio = plant(budget, load(window)) * Math.exp(spread * normal());
    budget = controller.next(ratio, RANGE);
    expect(budget).toBeGreaterThanOrEqual(RANGE.least);
    expect(budget).toBeLessThanOrEqual(RANGE.most);
    budgets.push(budget);
  }
  return budgets;
}

const lastChange = (budgets: number[]) =>
  budgets.findLastIndex((budget, i) => i > 0 && budget !== budgets[i - 1]);

/** Times that the budget turned from falling to rising or back. */
function turns(budgets: number[]): number {
  const moves = budgets
    .slice(1)
    .flatMap((budget, i) => (budget === budgets[i] ? [] : [Math.sign(budget - budgets[i]!)]));
  return moves.filter((move, i) => i > 0 && move !== moves[i - 1]).length;
}

const PLANTS = Object.entries({ linear, steep, cliff });
/** Turns of one search: down, and halving the bracket. */
const MOST_TURNS = 6;

describe('The target controller', () => {
  it.each(PLANTS)('settles within 30 s after each step of load (%s)', (_, plant) => {
    const steps = [1, 1.6, 0.8, 1.2];
    const budgets = run(plant, (window) => steps[Math.floor(window / 100)]!, 400);
    for (const [i, load] of steps.entries()) {
      const own = budgets.slice(100 * i, 100 * (i + 1));
      expect(lastChange(own) * WINDOW_SECONDS).toBeLessThan(30);
      expect(turns(own)).toBeLessThanOrEqual(MOST_TURNS);
      expect(own.at(-1)! / smallest(plant, load)).toBeLessThanOrEqual(1.1);
      expect(plant(own.at(-1)!, load)).toBeLessThanOrEqual(1);
    }
  });

  it.each(PLANTS.slice(0, 2))('follows a ramp without turning back (%s)', (_, plant) => {
    const load = (window: number) => 0.8 + 0.8 * Math.min(1, Math.max(0, (window - 50) / 400));
    const budgets = run(plant, load, 600);
    const rising = budgets.slice(50);
    expect(rising.at(-1)! / smallest(plant, 1.6)).toBeLessThanOrEqual(1.1);
    const missed = rising.filter((budget, i) => plant(budget, load(50 + i)) > 1.1).length;
    expect(missed / rising.length).toBeLessThan(0.1);
  });

  it.each([1, 2, 3, 4, 5])('stays still under noise of 3 % (seed %i)', (seed) => {
    for (const plant of [linear, steep]) {
      const budgets = run(plant, () => 1, 1000, 0.03, seed);
      const settled = budgets.slice(30);
      expect(settled.filter((budget, i) => i > 0 && budget !== settled[i - 1]).length).toBeLessThan(30);
      expect(turns(settled)).toBeLessThanOrEqual(MOST_TURNS);
      expect(budgets.at(-1)! / smallest(plant, 1)).toBeLessThanOrEqual(1.1);
    }
  });

  it('is not moved by one outlier', () => {
    const controller = new TargetController(RANGE.most);
    let budget = RANGE.most;
    for (let window = 0; window < 50; window += 1) budget = controller.next(linear(budget, 1), RANGE);
    expect(controller.next(20, RANGE)).toBe(budget);
    for (let window = 0; window < 10; window += 1)
      expect(controller.next(linear(budget, 1), RANGE)).toBe(budget);
  });

  it('tries below a cliff ever more seldom', () => {
    const budgets = run(cliff, () => 1, 5000);
    const tries = budgets.flatMap((budget, i) =>
      i > 30 && budget < 4e9 && budgets[i - 1]! >= 4e9 ? [i] : [],
    );
    // A search comes near the cliff a few times.
    const searches = tries.filter((at, i) => i === 0 || at - tries[i - 1]! > 30);
    const gaps = searches.slice(1).map((at, i) => at - searches[i]!);
    expect(gaps.length).toBeGreaterThan(2);
    for (const [i, gap] of gaps.slice(1).entries()) expect(gap).toBeGreaterThan(1.5 * gaps[i]!);
  });

  it('says when the cap is too small, and when it is enough again', () => {
    const controller = new TargetController(RANGE.most);
    let budget = RANGE.most;
    for (let window = 0; window < 5; window += 1) budget = controller.next(linear(budget, 4), RANGE);
    expect([budget, controller.unmet]).toEqual([RANGE.most, true]);
    for (let window = 0; window < 30; window += 1) budget = controller.next(linear(budget, 1), RANGE);
    expect(controller.unmet).toBe(false);
    expect(budget).toBeLessThan(RANGE.most);
  });

  it('obeys a smaller cap at once', () => {
    const controller = new TargetController(RANGE.most);
    expect(controller.next(0.5, { least: 1e9, most: 2e9 })).toBe(2e9);
  });
});
