/** Checks that every exact run gives the bits of the resident run of the same inputs. */

import { inputsKey, isReference } from '../scenarios/scenarios.js';
import { systemNamed } from '../scenarios/systems.js';
import type { MeasurementResult } from './result.js';

export interface ExactnessVerdict {
  /** Samples compared. */
  comparisons: number;
  /** Names of measurements with a sample whose answers differ. */
  differing: string[];
  /** Names of exact measurements without a resident run to compare with. */
  alone: string[];
}

export function judgeExactness(measurements: readonly MeasurementResult[]): ExactnessVerdict {
  const references = new Map<string, string>();
  for (const measurement of measurements) {
    const digest = measurement.samples.find((sample) => sample.digest !== '')?.digest;
    const key = inputsKey(measurement.scenario);
    if (isReference(measurement) && digest !== undefined && !references.has(key)) {
      references.set(key, digest);
    }
  }
  const verdict: ExactnessVerdict = { comparisons: 0, differing: [], alone: [] };
  for (const measurement of measurements) {
    if (!systemNamed(measurement.system).exact) continue;
    const reference = references.get(inputsKey(measurement.scenario));
    const digests = measurement.samples.map(({ digest }) => digest).filter((digest) => digest !== '');
    if (reference === undefined) {
      if (digests.length > 0) verdict.alone.push(measurement.name);
      continue;
    }
    verdict.comparisons += digests.length;
    if (digests.some((digest) => digest !== reference)) verdict.differing.push(measurement.name);
  }
  return verdict;
}
