// Predictors with something wrong with them.
import { createHash } from 'node:crypto';
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { loadAddon } from '../../src/native/addon.js';
import type { PredictorFiles } from './predictor-files.js';
import { MINI } from './server-process.js';

/** A copy of the predictor for a test to break. */
export function broken(
  { root, predictor }: PredictorFiles,
  name: string,
  breakIt: (directory: string) => void,
): string {
  const directory = join(root, name);
  cpSync(predictor, directory, { recursive: true });
  breakIt(directory);
  return directory;
}

export function editJson(path: string, change: object): void {
  writeFileSync(path, JSON.stringify({ ...JSON.parse(readFileSync(path, 'utf8')), ...change }));
}

export function weightsIn(stack: string): string {
  return join(stack, readdirSync(stack).find((file) => file.endsWith('.safetensors'))!);
}

/** Replaces every weight, and the digest that names them. */
export function fillWeights(stack: string, value: number): void {
  const old = weightsIn(stack);
  const bytes = readFileSync(old);
  for (let at = 8 + Number(bytes.readBigUInt64LE()); at < bytes.length; at += 4)
    bytes.writeFloatLE(value, at);
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  rmSync(old);
  writeFileSync(join(stack, `predictor-${sha256.slice(0, 16)}.safetensors`), bytes);
  editJson(join(stack, 'predictor.json'), { weights_sha256: sha256 });
}

/** An untrained network in the place of a trained one. */
export function replaceNetwork(stack: string, change: { hidden?: number; experts?: number }): void {
  const addon = loadAddon();
  const old = JSON.parse(readFileSync(join(stack, 'predictor.json'), 'utf8'));
  const { layers, experts, hidden, causal, summary } = old;
  const embedding = new addon.TokenEmbedding({ checkpoint: MINI });
  const trainer = new addon.PredictorTrainer({
    embedding,
    seed: 1,
    shape: {
      dIn: embedding.dModel,
      ...{ layers, experts, hidden, causal, ...change },
      ...{ bidirectional: false, positions: false, summary },
    },
    settings: {
      ...{ beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weightDecay: 0, clipNorm: 1, threads: 1 },
      ...{ top: 1, lambda: 1, k: 1, distillation: 'kl', studentOverTop: false },
    },
  });
  rmSync(stack, { recursive: true });
  mkdirSync(stack);
  trainer.save(stack, false);
  trainer.close();
}

/** Its chances say that it is always sure. */
export function makeSure(directory: string): void {
  const stack = { alpha: [1, 1], chance: [300, 300] };
  editJson(join(directory, 'sida-predictor.json'), { sharpness: { encoder: stack, decoder: stack } });
}

/** Networks so wide that naming the experts takes longer than a pass. */
export function makeSlow(directory: string): void {
  for (const stack of ['encoder', 'decoder']) replaceNetwork(join(directory, stack), { hidden: 896 });
}

/** Networks whose outputs are not finite. */
export function makeOverflow(directory: string): void {
  for (const stack of ['encoder', 'decoder']) fillWeights(join(directory, stack), 3e38);
}
