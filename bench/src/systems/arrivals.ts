/** Random arrivals: a Poisson process, the same for the same seed. */
import { randomOf } from '../../../dist/predictor/random.js';

/** Milliseconds from the begin to each arrival, ascending. Gaps are exponential with mean 1000 / perSecond. */
export function poissonArrivals(perSecond: number, count: number, seed: number): number[] {
  const random = randomOf(seed);
  let at = 0;
  return Array.from({ length: count }, () => {
    at += (-Math.log(1 - random()) * 1000) / perSecond;
    return at;
  });
}
