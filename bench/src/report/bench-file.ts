/** bench.json: a result with summed-up samples of each measurement. The report is generated from it alone. */
import { SidaError } from '../../../dist/errors.js';
import type { BenchResult, Sample } from '../runs/result.js';
import { inputsKey, type Measurement } from '../scenarios/scenarios.js';
import type { TaskFidelity } from '../studies/studies.js';
import { medians } from '../support/statistics.js';

/** Medians of the rounds, number by number. */
export interface MeasurementSummary extends Measurement, Omit<Sample, 'answers' | 'warnings'> {
  name: string;
  commits: string[];
  /** Of each round. */
  wallMsOfRounds: number[];
  /** Share of the sentences that got the resident run's label. */
  agreement: number | null;
}

export interface BenchFile extends Omit<BenchResult, 'measurements'> {
  measurements: MeasurementSummary[];
  fidelity: TaskFidelity[];
}

export const BENCH_FILE = 'bench.json';

/** Bytes are counted, so only the rounding of their median may lie below the bound. */
const ROUNDING = 1e-6;

/** Throws cannot_run if a measurement moved fewer bytes than any policy can: every row beside it may be wrong. */
export function checkBounds(
  measurements: readonly Pick<MeasurementSummary, 'name' | 'bytesMoved' | 'leastBytes'>[],
): void {
  const beaten = measurements.filter(({ bytesMoved, leastBytes = 0 }) => bytesMoved < (1 - ROUNDING) * leastBytes);
  if (beaten.length === 0) return;
  const named = beaten.map(
    ({ name, bytesMoved, leastBytes }) => `${name} (${(bytesMoved / leastBytes!).toFixed(3)} of it)`,
  );
  throw new SidaError({
    code: 'cannot_run',
    message: `Fewer bytes than any policy can move: ${named.join(', ')}. This is a bug in the measurement.`,
  });
}

export function summarize(result: BenchResult, fidelity: TaskFidelity[]): BenchFile {
  const reference = new Map<string, string>();
  for (const { scenario, system, samples } of result.measurements) {
    if (system === 'resident' && samples.length > 0) reference.set(inputsKey(scenario), samples[0]!.answers);
  }
  const measurements = result.measurements.map(({ name, scenario, system, commits, samples }): MeasurementSummary => {
    const { answers, warnings: _, ...numbers } = medians(samples);
    const resident = reference.get(inputsKey(scenario));
    return {
      name,
      scenario,
      system,
      commits: [...new Set(commits)],
      ...numbers,
      wallMsOfRounds: samples.map(({ wallMs }) => Math.round(wallMs * 100) / 100),
      agreement: resident === undefined ? null : sameShare(answers, resident),
    };
  });
  return { ...result, measurements, fidelity };
}

function sameShare(a: string, b: string): number | null {
  const length = Math.min(a.length, b.length);
  if (length === 0) return null;
  let same = 0;
  for (let i = 0; i < length; i++) if (a[i] === b[i]) same += 1;
  return same / length;
}
