/** Least squares of two features, whose factors are not below 0. */
import type { Fit } from '../protocol/quote.js';

export const NO_FIT: Fit = [0, 0, 0, 0, 0];

/** The sums with one more observation, where the others keep a share of their weight. */
export function withObservation(fit: Fit, [x, y, z]: readonly [number, number, number], kept: number): Fit {
  return [x * x, x * y, y * y, x * z, y * z].map((each, i) => kept * fit[i]! + each) as Fit;
}

/** Returns undefined where the observations do not tell the features apart: they differ by too small a share. */
export function solve([xx, xy, yy, xz, yz]: Fit, apart = 1e-3): [number, number] | undefined {
  const det = xx * yy - xy * xy;
  if (!(det > apart * xx * yy)) return undefined;
  const [a, b] = [(xz * yy - yz * xy) / det, (yz * xx - xz * xy) / det];
  if (b < 0) return [xz / xx, 0];
  return a < 0 ? [0, yz / yy] : [a, b];
}
