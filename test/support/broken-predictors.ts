// Makes damaged and unsuitable predictors.
import { createHash } from 'node:crypto';
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { loadAddon } from '../../src/native/addon.js';
import type { PredictorFiles } from './predictor-files.js';
import { MINI } from './server-process.js';

const STACKS = ['encoder', 'decoder'] as const;

/** Copies the predictor, damages the copy with `breakIt`, and returns its directory. */
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

function editJson(path: string, change: object): void {
  writeFileSync(path, JSON.stringify({ ...JSON.parse(readFileSync(path, 'utf8')), ...change }));
}

export function weightsIn(stack: string): string {
  return join(stack, readdirSync(stack).find((file) => file.endsWith('.safetensors'))!);
}

/** The folder of a stack's lstm network. */
export function networkOf(directory: string, stack: 'encoder' | 'decoder'): string {
  return join(directory, 'lstm', stack);
}

/** Sets every weight to `value`, and updates the digest. */
function fillWeights(stack: string, value: number): void {
  const old = weightsIn(stack);
  const bytes = readFileSync(old);
  for (let at = 8 + Number(bytes.readBigUInt64LE()); at < bytes.length; at += 4)
    bytes.writeFloatLE(value, at);
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  rmSync(old);
  writeFileSync(join(stack, `predictor-${sha256.slice(0, 16)}.safetensors`), bytes);
  editJson(join(stack, 'predictor.json'), { weights_sha256: sha256 });
}

/** Replaces a trained network by an untrained one. */
function replaceNetwork(stack: string, change: { hidden?: number; experts?: number }): void {
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
      ...{ bidirectional: false, summary },
    },
    settings: {
      ...{ beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weightDecay: 0, clipNorm: 1, threads: 1 },
      ...{ top: 1, lambda: 1, k: 1, distillation: 'kl' },
    },
  });
  rmSync(stack, { recursive: true });
  mkdirSync(stack);
  trainer.save(stack, false);
  trainer.close();
}

/** Sets a sharpness that makes the predictor always certain. */
export function makeSure(directory: string): void {
  const stack = { alpha: [1, 1], chance: [300, 300] };
  const file = join(directory, 'sida-predictor.json');
  const { networks } = JSON.parse(readFileSync(file, 'utf8'));
  const sharpness = { encoder: stack, decoder: stack };
  editJson(file, { networks: { ...networks, lstm: { ...networks.lstm, sharpness } } });
}

/** Replaces the networks by wide ones, whose predictions take longer than a pass. */
export function makeSlow(directory: string): void {
  for (const stack of STACKS) replaceNetwork(networkOf(directory, stack), { hidden: 896 });
}

/** Sets weights that make the outputs of the networks infinite or NaN. */
export function makeOverflow(directory: string): void {
  for (const stack of STACKS) fillWeights(networkOf(directory, stack), 3e38);
}
