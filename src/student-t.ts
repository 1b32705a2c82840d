/** Intervals of means of few values. */

/** By degrees of freedom from 1 on. */
const FEW = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306];
/** Of a normal distribution. */
const MANY = 1.96;

/**
 * The 97.5 % quantile of Student's t: half of a 95 % interval, in standard errors. Beyond the table by two terms of the
 * expansion of Abramowitz and Stegun, 26.7.5, which are then exact to 0.005.
 */
export function studentT(freedom: number): number {
  const first = (MANY ** 3 + MANY) / 4;
  const second = (5 * MANY ** 5 + 16 * MANY ** 3 + 3 * MANY) / 96;
  return FEW[freedom - 1] ?? MANY + first / freedom + second / freedom ** 2;
}
