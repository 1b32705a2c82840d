/** Copies of the bundled model, and what may change in one while a pack of it is cached. */
import { cpSync, readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { MINI } from './server-process.js';

/** Copies the model into `<directory>/switch-mini`. Servers and workers go by that last name. */
export function copyModel(directory: string, { predictor = false } = {}): string {
  const model = join(directory, 'switch-mini');
  cpSync(MINI, model, { recursive: true, filter: (path) => predictor || !path.includes('predictor') });
  // Copies have the same sizes and times, and a time in whole seconds can be set again exactly.
  utimesSync(join(model, 'model.safetensors'), 1_700_000_000, 1_700_000_000);
  return model;
}

function edit(file: string, change: (json: never) => void): void {
  const json = JSON.parse(readFileSync(file, 'utf8'));
  change(json as never);
  writeFileSync(file, JSON.stringify(json));
}

/** Gives a hundred common pieces each other's ids, so that most texts become other ids. */
export function changeTokenizer(model: string): void {
  edit(join(model, 'tokenizer.json'), ({ model: { vocab } }: { model: { vocab: [string, number][] } }) => {
    vocab.splice(110, 0, ...vocab.splice(210, 100));
  });
}

export function addTask(model: string): void {
  edit(join(model, 'sida.json'), ({ tasks }: { tasks: Record<string, object> }) => {
    tasks.mood = { template: 'mood: {text}', labels: ['bad', 'good'] };
  });
}

/** Other weights of the same size, under the same modification time. */
export function swapWeights(model: string): void {
  const path = join(model, 'model.safetensors');
  const { atime, mtime } = statSync(path);
  const bytes = readFileSync(path);
  const half = bytes.length >> 1;
  bytes.copy(bytes, half, half + 4096, half + 4096 + (1 << 20));
  writeFileSync(path, bytes);
  utimesSync(path, atime, mtime);
}
