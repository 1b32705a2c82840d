/**
 * What predictions are worth in answers: `sida eval` of the bundled models. Tables 3, 4 and 5 of SiDA-MoE.
 */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { SourceReport } from '../../../dist/evaluation/evaluate.js';
import { missingInputs, readBenchInputs } from '../preparation/inputs.js';
import { shortHash } from '../preparation/prepare.js';
import type { Skipped } from '../runs/result.js';
import { type DataName, fitsName } from '../scenarios/scenarios.js';
import { MODELS_DIRECTORY } from '../support/paths.js';
import { sida } from '../support/processes.js';

/** A task, or `text` for running text. */
type FidelityData = DataName | 'text';

export interface Study {
  model: 'switch-mini' | 'switch-words' | 'olmoe-mini';
  data: FidelityData;
}

/** A source of `sida eval --json`. */
export interface TaskFidelity extends SourceReport {
  model: Study['model'];
  data: FidelityData;
}

export interface StudyOptions {
  work: string;
  data: string | undefined;
  /** Inputs of each study. */
  inputs: number;
  threads: number;
  onStep: (what: string) => void;
}

/** Running text, in the directory of the tasks. */
const TEXT = 'wikitext2/test.txt';

export const QUICK_STUDIES: readonly Study[] = [{ model: 'switch-mini', data: 'sst2' }];

export const FULL_STUDIES: readonly Study[] = [
  ...(['sst2', 'mrpc', 'multirc', 'text'] as const).map((data): Study => ({ model: 'switch-mini', data })),
  { model: 'switch-words', data: 'words' },
  // Its experts are its only feed-forward layers, so that quality can fail.
  { model: 'olmoe-mini', data: 'text' },
];

export function studyName({ model, data }: Study): string {
  return `${model}/${data}/fidelity`;
}

export function selectStudies(studies: readonly Study[], patterns: readonly string[]): Study[] {
  if (patterns.length === 0) return [...studies];
  return studies.filter((study) => patterns.some((pattern) => fitsName(pattern, studyName(study))));
}

export async function runStudies(
  studies: readonly Study[],
  options: StudyOptions,
): Promise<{ fidelity: TaskFidelity[]; skipped: Skipped[] }> {
  const fidelity: TaskFidelity[] = [];
  const skipped: Skipped[] = [];
  for (const study of studies) {
    const { model, data } = study;
    const why = missing(data, options.data);
    if (why === undefined) {
      options.onStep(`${studyName(study)}: measuring`);
      const { sources } = JSON.parse(await sida(await evalArgs(study, options))) as {
        sources: SourceReport[];
      };
      fidelity.push({ ...sources[0]!, model, data });
    } else {
      skipped.push({ what: studyName(study), why });
      options.onStep(`sida bench: ${studyName(study)} is left out: ${why}`);
    }
  }
  return { fidelity, skipped };
}

function missing(data: FidelityData, directory: string | undefined): string | undefined {
  if (data !== 'text') return missingInputs(data, directory);
  if (directory !== undefined && existsSync(join(directory, TEXT))) return undefined;
  return `running text needs ${TEXT} in --data`;
}

async function evalArgs({ model: name, data }: Study, options: StudyOptions): Promise<string[]> {
  const { threads, inputs, work } = options;
  const model = join(MODELS_DIRECTORY, name);
  const common = ['eval', model, '--predictor', join(model, 'predictor'), '--json'];
  const limits = ['--limit', String(inputs), '--threads', String(threads), '--pack-dir', join(work, 'packs')];
  // olmoe-mini's routers choose several experts, whose number is the default.
  const widths = name === 'olmoe-mini' ? [] : ['--routing-k', '1,3'];
  const all = [...common, ...limits, ...widths];
  if (data === 'text') return [...all, '--text', join(options.data!, TEXT)];
  const { file, labels } = await written(data, options);
  return [...all, '--data', file, '--template', '{text}', '--labels', labels.join()];
}

/** The measured texts of a task with their labels, as a file of one field each. */
async function written(
  data: DataName,
  { data: directory, inputs, work }: StudyOptions,
): Promise<{ file: string; labels: readonly string[] }> {
  const read = await readBenchInputs(data, { directory, sentences: inputs, trainingSentences: inputs });
  const lines = read.texts.map((text, i) => JSON.stringify({ text, label: read.right[i] }));
  const file = join(work, 'studies', `${data}-${shortHash(...lines)}.jsonl`);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, lines.join('\n'));
  return { file, labels: read.labels };
}
