// Makes a small predictor of the bundled model and its trace with the real commands.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MINI, REPO, type Sentence } from './server-process.js';
import { outputOf } from './sida-process.js';

export interface PredictorFiles {
  root: string;
  /** Directory of the trace, which true tables come from. */
  trace: string;
  /** Directory of the predictor: networks of both stacks, and the token table. */
  predictor: string;
  remove(): void;
}

/** Traces the sentences and trains networks for three epochs, which gives some right predictions. */
export function makePredictor(sentences: readonly Sentence[]): PredictorFiles {
  const root = mkdtempSync(join(tmpdir(), 'sida-predictor-'));
  const [data, trace, predictor] = ['data.jsonl', 'trace', 'predictor'].map((name) => join(root, name)) as [
    string,
    string,
    string,
  ];
  writeFileSync(data, sentences.map((sentence) => JSON.stringify(sentence)).join('\n'));
  const flags = ['--template', 'sst2 sentence: {text}', '--activations', 'f32', '--kv', 'f32'];
  outputOf('trace', MINI, '--data', data, ...flags, '--out', trace, '--pack-dir', join(root, 'packs'));
  const network = ['--hidden', '16', '--lr', '1e-2', '--batch', '16', '--epochs', '3', '--threads', '1'];
  outputOf('train', trace, '--out', predictor, ...network);
  return { root, trace, predictor, remove: () => rmSync(root, { recursive: true, force: true }) };
}

/** The processes that `start` begins take their tables from the laboratory: true ones of a trace, or wrong ones. */
export async function withTables<T>(tables: 'replay' | 'shuffled', start: () => T | Promise<T>): Promise<T> {
  process.env.SIDA_HASH_FUNCTION_MODULE = join(REPO, `bench/dist/hash-functions/${tables}.js`);
  try {
    return await start();
  } finally {
    delete process.env.SIDA_HASH_FUNCTION_MODULE;
  }
}
