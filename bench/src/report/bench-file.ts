/** bench.json: a result with summed-up samples of each measurement. The report is generated from it alone. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { SidaError } from '../../../dist/errors.js';
import type { BenchResult, Sample } from '../runs/result.js';
import { inputsKey, type Measurement } from '../scenarios/scenarios.js';
import type { DependencyReport } from '../studies/dependency.js';
import type { GatingResult } from '../studies/gating.js';
import type { TaskFidelity } from '../studies/task-fidelity.js';
import { isChangedTree } from '../support/provenance.js';
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
  dependency: DependencyReport[];
  /** Null or absent if it did not run. */
  gating?: GatingResult | null;
}

export const BENCH_FILE = 'bench.json';

/** Throws cannot_run if there is none, or if its version differs. */
export function readBenchFile(out: string): BenchFile {
  const path = join(out, BENCH_FILE);
  const fail = (why: string) =>
    new SidaError({
      code: 'cannot_run',
      message: `${path} ${why}; run \`sida bench\` without --report first`,
    });
  let file: BenchFile;
  try {
    file = JSON.parse(readFileSync(path, 'utf8')) as BenchFile;
  } catch (error) {
    throw fail(`cannot be read: ${(error as Error).message}`);
  }
  if (file.format !== 'sida-bench' || file.version !== 1) throw fail('is no result of this version');
  return file;
}

/** Commits of the result that were measured in a tree with changes, so that nobody can check them out. */
export function changedTrees({ provenance, measurements }: BenchFile): string[] {
  const commits = [provenance.commit, ...measurements.flatMap((measurement) => measurement.commits)];
  return [...new Set(commits)].filter(isChangedTree);
}

/** Throws cannot_run for a result from a tree with changes. */
export function checkTrees(file: BenchFile, where: string): void {
  const changed = changedTrees(file);
  if (changed.length === 0) return;
  throw new SidaError({
    code: 'cannot_run',
    message: `${where} was measured in a tree with changes (${changed.join(', ')}): measure it at a commit, or name it as such with --changed-tree`,
  });
}

export function summarize(
  result: BenchResult,
  studies: Pick<BenchFile, 'fidelity' | 'dependency' | 'gating'>,
): BenchFile {
  const reference = new Map<string, string>();
  for (const { scenario, system, samples } of result.measurements) {
    if (system === 'resident' && samples.length > 0) reference.set(inputsKey(scenario), samples[0]!.answers);
  }
  const measurements = result.measurements.map(
    ({ name, scenario, system, commits, samples }): MeasurementSummary => {
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
    },
  );
  const { fidelity, dependency, gating } = studies;
  return { ...result, measurements, fidelity, dependency, gating: gating ?? null };
}

function sameShare(a: string, b: string): number | null {
  const length = Math.min(a.length, b.length);
  if (length === 0) return null;
  let same = 0;
  for (let i = 0; i < length; i++) if (a[i] === b[i]) same += 1;
  return same / length;
}

export function perSecond({ sentences, wallMs }: Pick<MeasurementSummary, 'sentences' | 'wallMs'>): number {
  return (1000 * sentences) / wallMs;
}
