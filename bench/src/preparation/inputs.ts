/** Texts of the tasks: some to measure, and others to learn from. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { readLabelled } from '../../../dist/evaluation/labelled-data.js';
import type { DataName } from '../scenarios/scenarios.js';
import { BUNDLED_SST2, MODELS_DIRECTORY } from '../support/paths.js';
import { taskOf } from './tasks.js';

export interface BenchInputs {
  name: DataName;
  template: string;
  labels: readonly string[];
  /** Measured, in the file's order. */
  texts: string[];
  /** Index of each text's label. */
  right: number[];
  /** Other text of the same task, for predictors and static choices. */
  training: string[];
  /** Source of the texts, for people. */
  source: string;
  warnings: string[];
}

interface Files {
  /** Where the files lie, if not in the directory of --data. */
  bundled?: string;
  evaluation: string;
  training: string;
  joins?: { evaluation: Record<string, string>; training: Record<string, string> };
}

const FILES: Record<DataName, Files> = {
  sst2: { evaluation: 'sst2/validation.jsonl', training: 'sst2/train.jsonl' },
  mrpc: { evaluation: 'mrpc/test.jsonl', training: 'mrpc/train.jsonl' },
  multirc: {
    evaluation: 'multirc/validation.jsonl',
    training: 'multirc/train.jsonl',
    joins: {
      evaluation: { passage: 'multirc/validation.passages.jsonl' },
      training: { passage: 'multirc/train.passages.jsonl' },
    },
  },
  // switch-words knows all of them, and its predictor did not see those that are measured.
  words: {
    bundled: MODELS_DIRECTORY,
    evaluation: 'switch-words/words/known-held-out.jsonl',
    training: 'switch-words/words/known.jsonl',
  },
};

export interface InputOptions {
  /** Directory of the tasks' files; undefined: only what the repository holds. */
  directory: string | undefined;
  sentences: number;
  trainingSentences: number;
}

/** The reason why a task cannot be measured here, or undefined. */
export function missingInputs(name: DataName, directory: string | undefined): string | undefined {
  if (name === 'sst2' || FILES[name].bundled !== undefined) return undefined;
  if (directory === undefined) return `${name} needs --data DIR: its texts are not bundled`;
  const { evaluation, training, joins } = FILES[name];
  const wanted = [evaluation, training, ...Object.values({ ...joins?.evaluation, ...joins?.training })];
  const lacking = wanted.filter((file) => !existsSync(join(directory, file)));
  return lacking.length === 0 ? undefined : `${name} needs ${lacking.join(', ')} in ${directory}`;
}

export async function readBenchInputs(name: DataName, options: InputOptions): Promise<BenchInputs> {
  const { sentences, trainingSentences } = options;
  const { bundled, evaluation, training, joins } = FILES[name];
  const directory = bundled ?? options.directory;
  const task = taskOf(name);
  const about = { name, template: task.template, labels: task.labels };
  const read = (file: string, limit: number, joined?: Record<string, string>) =>
    readLabelled({
      file,
      template: task.template,
      labels: task.labels,
      limit,
      ...(joined && {
        joins: Object.fromEntries(Object.entries(joined).map(([field, other]) => [field, join(directory!, other)])),
      }),
    });
  const own = directory === undefined ? undefined : join(directory, evaluation);
  if (own === undefined || (name === 'sst2' && !existsSync(own))) {
    const lines = await read(BUNDLED_SST2, sentences + trainingSentences);
    const measured = Math.min(sentences, Math.ceil(lines.length / 2));
    const warning = `SST-2: the bundled validation set stands in for --data: ${measured} of its sentences are measured, the ${lines.length - measured} behind them are what predictors of random-weight models and static choices learn from`;
    return {
      ...about,
      ...columns(lines.slice(0, measured)),
      training: lines.slice(measured).map(({ text }) => text),
      source: 'the bundled validation set of SST-2',
      warnings: [warning],
    };
  }
  return {
    ...about,
    ...columns(await read(own, sentences, joins?.evaluation)),
    training: (await read(join(directory!, training), trainingSentences, joins?.training)).map(({ text }) => text),
    source: evaluation,
    warnings: [],
  };
}

function columns(lines: readonly { text: string; label?: number }[]): { texts: string[]; right: number[] } {
  return { texts: lines.map(({ text }) => text), right: lines.map(({ label }) => label!) };
}
