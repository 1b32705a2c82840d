// Shared by the predictor's tests: an artificial language that a small predictor learns in seconds.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { PredictorShape, TrainingBatch } from '../../src/native/addon-types.js';
import { addon, fresh } from './fixture.js';

export const WORDS = 24;
export const WIDTH = 12;
export const TOP = 3;

/** A generator of numbers in [0, 1), which are the same in every run. */
function random(seed: number): () => number {
  let state = seed * 2654435761 + 1;
  return () => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x6d2b79f5) | 0;
    return ((state ^ (state >>> 13)) >>> 0) / 2 ** 32;
  };
}

/** The bytes of a safetensors file with one f32 tensor. */
export function safetensors(name: string, shape: number[], data: Float32Array): Buffer {
  const header = JSON.stringify({ [name]: { dtype: 'F32', shape, data_offsets: [0, data.byteLength] } });
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  return Buffer.concat([length, Buffer.from(header), Buffer.from(data.buffer)]);
}

function smallEmbedding() {
  const next = random(3);
  const file = join(fresh(), 'embedding.safetensors');
  const data = Float32Array.from({ length: WORDS * WIDTH }, () => next() * 2 - 1);
  writeFileSync(file, safetensors('embedding.weight', [WORDS, WIDTH], data));
  return new addon.TokenEmbedding({ file });
}

export const embedding = smallEmbedding();
export const shape: PredictorShape = {
  dIn: WIDTH,
  hidden: 24,
  layers: 2,
  experts: 6,
  causal: false,
  bidirectional: false,
  blocks: 0,
  summary: false,
};
export const settings = {
  beta1: 0.9,
  beta2: 0.999,
  epsilon: 1e-8,
  weightDecay: 0.01,
  top: TOP,
  lambda: 0.005,
  k: 1,
  distillation: 'kl' as const,
  clipNorm: 1,
  threads: 1,
};

/**
 * A batch of the artificial language. In layer 0, the expert depends on the word. In layer 1, it depends on the word,
 * on the previous word and, with `summary`, on the context.
 */
export function task(seed: number, summary = false, sequences = 32): TrainingBatch {
  const next = random(seed);
  const below = (n: number) => Math.floor(next() * n);
  const tokens: number[] = [];
  const offsets = [0];
  const contextTokens: number[] = [];
  const contextOffsets = [0];
  const best: [number[], number[]] = [[], []];
  for (let s = 0; s < sequences; s += 1) {
    const context = below(2) * 12;
    if (summary) contextTokens.push(context, context + 1);
    contextOffsets.push(contextTokens.length);
    let before = 0;
    for (let left = 1 + below(10); left > 0; left -= 1) {
      const word = below(WORDS);
      tokens.push(word);
      best[0].push(word % shape.experts);
      best[1].push((word + 3 * (before % 2) + (summary ? context / 12 : 0)) % shape.experts);
      before = word;
    }
    offsets.push(tokens.length);
  }
  const flat = best.flat();
  return {
    tokens: Int32Array.from(tokens),
    offsets: Int32Array.from(offsets),
    ...(summary && {
      contextTokens: Int32Array.from(contextTokens),
      contextOffsets: Int32Array.from(contextOffsets),
    }),
    experts: Uint16Array.from(flat.flatMap((e) => [e, (e + 1) % 6, (e + 2) % 6])),
    logits: Float32Array.from(flat.flatMap(() => [4, 2, 0])),
    top: TOP,
  };
}

/** A trainer after `steps` steps. */
export function trained(overrides: Partial<PredictorShape> = {}, steps = 150) {
  const trainer = new addon.PredictorTrainer({
    embedding,
    settings,
    shape: { ...shape, ...overrides },
    seed: 7,
  });
  for (let i = 0; i < steps; i += 1) trainer.step(task(i, overrides.summary), 1e-2);
  return trainer;
}

export function savedPredictor(overrides: Partial<PredictorShape> = {}, steps = 3) {
  const directory = fresh();
  trained(overrides, steps).save(directory, false);
  return directory;
}

export function predictAll(predictor: ReturnType<typeof openPredictor>, batch: TrainingBatch, k = 3) {
  const rows = predictor.shape.layers * batch.tokens.length;
  const experts = new Uint16Array(rows * k);
  const alpha = new Float32Array(rows * k);
  const logits = new Float32Array(rows * predictor.shape.experts);
  return { finite: predictor.predict(batch, k, experts, alpha, undefined, logits), experts, alpha, logits };
}

export function openPredictor(directory: string, threads = 1) {
  return new addon.Predictor({ directory, embedding, threads });
}
