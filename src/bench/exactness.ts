/** Every exact run must give the bits of the resident run of the same inputs. */
import type { CellResult } from './result.js';
import { inputsKey, isReference } from './scenarios.js';
import { systemNamed } from './systems.js';

export interface ExactnessVerdict {
  /** Samples compared. */
  comparisons: number;
  /** Names of cells with a sample whose answers are others. */
  differing: string[];
  /** Names of exact cells that had nothing to be compared with. */
  alone: string[];
}

/** Answers over REST are probabilities, not log-probabilities: they have a reference of their own. */
function answersKey({ scenario }: CellResult): string {
  const rest = scenario.arrivals === undefined ? 'batches' : `rest of ${scenario.arrivals}`;
  return `${inputsKey(scenario)}/${rest}`;
}

export function judgeExactness(cells: readonly CellResult[]): ExactnessVerdict {
  const references = new Map<string, string>();
  for (const cell of cells) {
    const digest = cell.samples.find((sample) => sample.digest !== '')?.digest;
    if (isReference(cell) && digest !== undefined && !references.has(answersKey(cell))) {
      references.set(answersKey(cell), digest);
    }
  }
  const verdict: ExactnessVerdict = { comparisons: 0, differing: [], alone: [] };
  for (const cell of cells) {
    if (!systemNamed(cell.system).exact) continue;
    const reference = references.get(answersKey(cell));
    const digests = cell.samples.map(({ digest }) => digest).filter((digest) => digest !== '');
    if (reference === undefined) {
      if (digests.length > 0) verdict.alone.push(cell.name);
      continue;
    }
    verdict.comparisons += digests.length;
    if (digests.some((digest) => digest !== reference)) verdict.differing.push(cell.name);
  }
  return verdict;
}
