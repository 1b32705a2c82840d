/** Whether two ways of running the same inputs differ by more than chance. */
import { studentT } from '../student-t.js';

/** A mean over inputs with the ends of its 95 % interval. */
export interface Interval {
  mean: number;
  low: number;
  high: number;
}

/** The interval of the mean of paired differences, one an input. Null for fewer than two inputs. */
export function intervalOf(differences: readonly number[]): Interval | null {
  const count = differences.length;
  if (count < 2) return null;
  const mean = differences.reduce((sum, value) => sum + value, 0) / count;
  const squares = differences.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  const half = studentT(count - 1) * Math.sqrt(squares / (count - 1) / count);
  return { mean, low: mean - half, high: mean + half };
}

/** Whether the inputs tell the exact model from one with experts of zeros: the whole interval lies above 0. */
export function isTold(gain: Interval | null): boolean {
  return gain !== null && gain.low > 0;
}

/** How much of the way from `zeros` to `exact` a figure has come; null where that way is lost in noise. */
export function shareOfWay(figure: number, zeros: number, exact: number, told: boolean): number | null {
  return told && exact !== zeros ? (figure - zeros) / (exact - zeros) : null;
}
