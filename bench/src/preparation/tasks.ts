/** The tasks whose texts are measured, as the bundled models declare them. */
import { join } from 'node:path';
import { readTasks, type Tasks } from '../../../dist/checkpoint/tasks.js';
import type { DataName } from '../scenarios/scenarios.js';
import { MODELS_DIRECTORY } from '../support/paths.js';

const DECLARED: Record<DataName, { folder: string; task: string }> = {
  sst2: { folder: 'switch-mini', task: 'sst2' },
  mrpc: { folder: 'switch-mini', task: 'mrpc' },
  multirc: { folder: 'switch-mini', task: 'multirc' },
  words: { folder: 'switch-words', task: 'category' },
};

export function taskOf(data: DataName): Tasks[string] {
  const { folder, task } = DECLARED[data];
  const found = readTasks(join(MODELS_DIRECTORY, folder))[task];
  if (found === undefined) throw new Error(`models/${folder} has no task ${task}. This is a bug.`);
  return found;
}
