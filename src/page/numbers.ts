/** How numbers are written, and what a budget costs. */

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

export function size(bytes: number): string {
  const unit = Math.min(UNITS.length - 1, bytes < 1 ? 0 : Math.floor(Math.log2(bytes) / 10));
  const value = bytes / 2 ** (10 * unit);
  return `${unit === 0 ? Math.round(value) : value.toFixed(value >= 100 ? 0 : 1)} ${UNITS[unit]}`;
}

export const count = (value: number) => value.toLocaleString('en');
export const seconds = (value: number) => `${value.toFixed(value < 10 ? 2 : 1)} s`;

/** Of an odd number of values. */
export const median = (values: readonly number[]) => values.toSorted((a, b) => a - b)[values.length >> 1]!;

/** Experts that layers needed, by how they found them. */
export interface Found {
  resident: number;
  prefetched: number;
  late: number;
  on_demand: number;
  peer: number;
  cpu: number;
}

export const neededExperts = ({ resident, prefetched, late, on_demand, peer, cpu }: Found) =>
  resident + prefetched + late + on_demand + peer + cpu;

/** What the price of a budget is reckoned from, in bytes. */
export interface BudgetCosts {
  budget: number;
  /** All that a budget holds but experts. */
  fixed: number;
  /** All experts of the model. */
  experts: number;
  /** The experts of one token. */
  token: number;
  /** Bytes a second, 0 where it was not measured. */
  disk: number;
}

/** Seconds to load the experts of a token where routing is even and nothing else hides the loads. */
export function loadSeconds({ fixed, experts, token, disk }: BudgetCosts, budget: number): number {
  const resident = Math.min(1, Math.max(0, (budget - fixed) / experts));
  return disk === 0 ? 0 : (token * (1 - resident)) / disk;
}

/** Seconds that a token took within a budget. */
export interface Measured {
  budget: number;
  seconds: number;
}

/** About how many times as long a token takes within another budget. Undefined without a measurement. */
export function slowerTimes(
  costs: BudgetCosts,
  budget: number,
  measured: Measured | undefined,
): number | undefined {
  if (measured === undefined || costs.disk === 0) return undefined;
  const then = loadSeconds(costs, measured.budget);
  // Tokens repeat experts, so that fewer are loaded than where routing is even: a larger budget may save nothing.
  const secondsWithin = (bytes: number) =>
    Math.max(measured.seconds + loadSeconds(costs, bytes) - then, measured.seconds / 10);
  return secondsWithin(budget) / secondsWithin(costs.budget);
}

/** A round number of bytes, about a quarter of the experts. */
export function budgetStep(experts: number): number {
  return 2 ** Math.max(0, Math.floor(Math.log2(experts / 4)));
}

/** Of vectors of one length. */
export const dot = (a: readonly number[], b: readonly number[]) =>
  a.reduce((sum, value, at) => sum + value * b[at]!, 0);
