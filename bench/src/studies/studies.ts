/** Studies: untimed figures of the bundled, trained models. Each runs in its own process, and its result is kept. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type BenchInputs, missingInputs, readBenchInputs } from '../preparation/inputs.js';
import { shortHash } from '../preparation/prepare.js';
import type { Skipped } from '../runs/result.js';
import { SWITCH_MINI } from '../scenarios/models.js';
import { fitsName } from '../scenarios/name-pattern.js';
import type { DataName } from '../scenarios/scenarios.js';
import { LABORATORY, MINI_DIRECTORY, MODELS_DIRECTORY, SIDA } from '../support/paths.js';
import { run } from '../support/processes.js';
import type { DependencyReport } from './dependency.js';
import { type GatingResult, gatingArgs, gatingMissing } from './gating.js';
import type { FidelityData, TaskFidelity } from './task-fidelity.js';

export type Study =
  | { kind: 'fidelity'; data: FidelityData; model?: 'olmoe-mini' | 'switch-words' }
  | { kind: 'dependency'; data: DataName }
  | { kind: 'gating'; data: 'sst2' };

export interface StudyResults {
  fidelity: TaskFidelity[];
  dependency: DependencyReport[];
  gating: GatingResult | null;
  skipped: Skipped[];
}

export interface StudyOptions {
  out: string;
  work: string;
  data: string | undefined;
  /** Inputs of each study. */
  inputs: number;
  threads: number;
  seed: number;
  fresh: boolean;
  onStep: (what: string) => void;
}

/** Running text, in the directory of the tasks. */
const TEXT = 'wikitext2/test.txt';

export const QUICK_STUDIES: readonly Study[] = [
  { kind: 'fidelity', data: 'sst2' },
  { kind: 'dependency', data: 'sst2' },
];

export const FULL_STUDIES: readonly Study[] = [
  ...(['sst2', 'mrpc', 'multirc'] as const).flatMap((data): Study[] => [
    { kind: 'fidelity', data },
    { kind: 'dependency', data },
  ]),
  { kind: 'fidelity', data: 'text' },
  { kind: 'fidelity', data: 'words', model: 'switch-words' },
  // Its experts are its only feed-forward layers, so that quality can fail.
  { kind: 'fidelity', data: 'text', model: 'olmoe-mini' },
  { kind: 'gating', data: 'sst2' },
];

export function studyName(study: Study): string {
  return `${modelOf(study)}/${study.data}/${study.kind}`;
}

function modelOf(study: Study): string {
  return (study.kind === 'fidelity' ? study.model : undefined) ?? SWITCH_MINI.name;
}

export function selectStudies(studies: readonly Study[], patterns: readonly string[]): Study[] {
  if (patterns.length === 0) return [...studies];
  return studies.filter((study) => patterns.some((pattern) => fitsName(pattern, studyName(study))));
}

export async function runStudies(studies: readonly Study[], options: StudyOptions): Promise<StudyResults> {
  const results: StudyResults = { fidelity: [], dependency: [], gating: null, skipped: [] };
  for (const study of studies) {
    const why = missing(study, options.data);
    if (why !== undefined) {
      results.skipped.push({ what: studyName(study), why });
      options.onStep(`sida bench: ${studyName(study)} is left out: ${why}`);
    } else if (study.kind === 'fidelity') {
      const args = [SIDA, ...(await fidelityArgs(study, options))];
      const { sources } = await kept<{ sources: TaskFidelity[] }>(study, args, options);
      const { data } = study;
      results.fidelity.push({ ...sources[0]!, model: modelOf(study), data, file: data });
    } else if (study.kind === 'gating') {
      results.gating = await kept<GatingResult>(study, gatingArgs(options.data, options.threads), options);
    } else {
      const args = [LABORATORY, ...(await dependencyArgs(study.data, options))];
      const report = await kept<DependencyReport>(study, args, options);
      results.dependency.push({ ...report, data: study.data });
    }
  }
  return results;
}

function missing({ kind, data }: Study, directory: string | undefined): string | undefined {
  if (kind === 'gating') return gatingMissing();
  if (data !== 'text') return missingInputs(data, directory);
  if (directory !== undefined && existsSync(join(directory, TEXT))) return undefined;
  return `running text needs ${TEXT} in --data`;
}

/** The result of an earlier run of the same command, or of a run now. */
async function kept<T>(study: Study, args: string[], { out, fresh, onStep }: StudyOptions): Promise<T> {
  const file = join(out, 'studies', `${studyName(study).replaceAll('/', '-')}.json`);
  const key = shortHash(...args);
  if (!fresh && existsSync(file)) {
    const earlier = JSON.parse(readFileSync(file, 'utf8')) as { key: string; report: T };
    if (earlier.key === key) return earlier.report;
  }
  onStep(`${studyName(study)}: measuring`);
  const report = JSON.parse(await run(process.execPath, args)) as T;
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, `${JSON.stringify({ key, report })}\n`);
  return report;
}

async function fidelityArgs(
  study: Extract<Study, { kind: 'fidelity' }>,
  options: StudyOptions,
): Promise<string[]> {
  const { threads, inputs, work } = options;
  const { data } = study;
  const model = join(MODELS_DIRECTORY, modelOf(study));
  const common = ['eval', model, '--predictor', join(model, 'predictor'), '--json'];
  const limits = ['--limit', String(inputs), '--threads', String(threads), '--pack-dir', join(work, 'packs')];
  const moved = ['--budgets', '20%', '--lookahead', '4'];
  // olmoe-mini's routers choose several experts, whose number is the default.
  const widths = study.model === 'olmoe-mini' ? [] : ['--routing-k', '1,3'];
  const all = [...common, ...limits, ...widths, ...moved];
  if (data === 'text') return [...all, '--text', join(options.data!, TEXT)];
  const { file, labels } = await written(data, options);
  return [...all, '--data', file, '--template', '{text}', '--labels', labels.join()];
}

async function dependencyArgs(data: DataName, options: StudyOptions): Promise<string[]> {
  const { threads, seed, inputs, work } = options;
  const { file } = await written(data, options);
  return [
    ...['dependency', MINI_DIRECTORY, '--data', file, '--template', '{text}', '--limit', String(inputs)],
    ...['--seed', String(seed), '--threads', String(threads), '--pack-dir', join(work, 'packs'), '--json'],
  ];
}

/** The measured texts of a task with their labels, as a file of one field each. */
async function written(
  data: DataName,
  { data: directory, inputs, work }: StudyOptions,
): Promise<{ file: string; labels: readonly string[] }> {
  const read: BenchInputs = await readBenchInputs(data, {
    directory,
    sentences: inputs,
    trainingSentences: inputs,
  });
  const lines = read.texts.map((text, i) => JSON.stringify({ text, label: read.right[i] }));
  const file = join(work, 'studies', `${data}-${shortHash(...lines)}.jsonl`);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, lines.join('\n'));
  return { file, labels: read.labels };
}
