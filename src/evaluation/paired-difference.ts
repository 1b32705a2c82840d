/** Whether two ways of running the same inputs differ by more than chance. */

/** A mean over inputs with the ends of its 95 % interval. */
export interface Interval {
  mean: number;
  low: number;
  high: number;
}

/** Of a normal distribution: 95 % lie within so many standard deviations of the mean. */
const NORMAL = 1.96;

/**
 * The same of Student's t for a mean of `count` values: few values know their own deviation badly. By the expansion of
 * Abramowitz and Stegun, 26.7.5, 3 % too small for three values and exact to 1 % from four on.
 */
function deviations(count: number): number {
  const [z, freedom] = [NORMAL, count - 1];
  const first = (z ** 3 + z) / 4;
  const second = (5 * z ** 5 + 16 * z ** 3 + 3 * z) / 96;
  const third = (3 * z ** 7 + 19 * z ** 5 + 17 * z ** 3 - 15 * z) / 384;
  return z + first / freedom + second / freedom ** 2 + third / freedom ** 3;
}

/** The interval of the mean of paired differences, one an input. Null for fewer than two inputs. */
export function intervalOf(differences: readonly number[]): Interval | null {
  const count = differences.length;
  if (count < 2) return null;
  const mean = differences.reduce((sum, value) => sum + value, 0) / count;
  const squares = differences.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  const half = deviations(count) * Math.sqrt(squares / (count - 1) / count);
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
