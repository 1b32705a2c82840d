/** Refuses a result in which something beats its bound: the measurement is wrong, and so may be every row beside it. */
import { SidaError } from '../../../dist/errors.js';
import type { MeasurementSummary } from './bench-file.js';

/** Bytes are counted, so only the rounding of their median may lie below the bound. */
const ROUNDING = 1e-6;

/** Throws cannot_run with the names of the measurements that moved fewer bytes than any policy can. */
export function checkBounds(
  measurements: readonly Pick<MeasurementSummary, 'name' | 'bytesMoved' | 'leastBytes'>[],
): void {
  const beaten = measurements.filter(
    ({ bytesMoved, leastBytes = 0 }) => bytesMoved < (1 - ROUNDING) * leastBytes,
  );
  if (beaten.length === 0) return;
  const named = beaten.map(
    ({ name, bytesMoved, leastBytes }) => `${name} (${(bytesMoved / leastBytes!).toFixed(3)} of it)`,
  );
  throw new SidaError({
    code: 'cannot_run',
    message: `Fewer bytes than any policy can move: ${named.join(', ')}. This is a bug in the measurement.`,
  });
}
