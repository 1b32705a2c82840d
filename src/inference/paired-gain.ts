/**
 * The gain of a source from pairs of windows, with a 95 % interval. An eighth of the pairs at each end counts as the
 * nearest pair that is left (winsorized), so that a window with a rare stall does not hide what the others show.
 */
import type { Gain } from '../protocol/governor-figures.js';
import { studentT } from '../student-t.js';

/** Share of the pairs at each end that are cut. */
const CUT = 1 / 8;

/** Each difference is the logarithm of a window's time without the source, less that of its pair with it. */
export function gainOf(differences: readonly number[]): Gain | null {
  const pairs = differences.length;
  const cut = Math.floor(pairs * CUT);
  const free = pairs - 2 * cut - 1;
  if (free < 1) return null;
  const sorted = [...differences].sort((a, b) => a - b);
  const kept = sorted.slice(cut, pairs - cut);
  const mean = sum(kept) / kept.length;
  const clamped = sorted.map((each) => Math.min(Math.max(each, kept[0]!), kept.at(-1)!));
  const middle = sum(clamped) / pairs;
  const deviation = Math.sqrt(sum(clamped.map((each) => (each - middle) ** 2)) / (pairs - 1));
  const error = deviation / ((1 - (2 * cut) / pairs) * Math.sqrt(pairs));
  const reach = error * studentT(free);
  return { mean: share(mean), low: share(mean - reach), high: share(mean + reach), pairs };
}

/** A difference of logarithms as a share of the time without the source. */
function share(difference: number): number {
  return 1 - Math.exp(-difference);
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
