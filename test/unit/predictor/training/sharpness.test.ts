import { describe, expect, it } from 'vitest';
import type { TrainingBatch } from '../../../../src/native/addon-types.js';
import { randomOf } from '../../../../src/predictor/random.js';
import { fitSharpness, type LogitSource } from '../../../../src/predictor/training/sharpness.js';

const E = 16;
const TOKENS = 4000;
const random = randomOf(3);
/** (layers, tokens, E). */
const logits = Float32Array.from({ length: 2 * TOKENS * E }, () => random() * 2);

/** Draws the true expert with probabilities softmax(β · logits). */
function draw(row: number, beta: number): number {
  const powers = Array.from(logits.subarray(row * E, row * E + E), (z) => beta * z);
  const top = Math.max(...powers);
  const chances = powers.map((power) => Math.exp(power - top));
  let left = random() * chances.reduce((a, b) => a + b);
  for (let e = 0; e < E - 1; e++) {
    left -= chances[e]!;
    if (left < 0) return e;
  }
  return E - 1;
}

/** Experts sorted by descending logit. */
function orderOf(row: number): number[] {
  const own = logits.subarray(row * E, row * E + E);
  return Array.from(own, (_, e) => e).sort((a, b) => own[b]! - own[a]!);
}

const sequence = { tokens: new Int32Array(TOKENS), offsets: Int32Array.of(0, TOKENS) };

/** A router whose logits are the network's times β of each layer, with the best `top` recorded. */
function scaled(betas: readonly number[], top: number): TrainingBatch {
  const rows = Array.from({ length: betas.length * TOKENS }, (_, row) => orderOf(row).slice(0, top));
  return {
    ...sequence,
    experts: Uint16Array.from(rows.flat()),
    logits: Float32Array.from(
      rows.flatMap((experts, row) =>
        experts.map((e) => betas[Math.floor(row / TOKENS)]! * logits[row * E + e]!),
      ),
    ),
    top,
  };
}

function drawn(betas: readonly number[]): TrainingBatch {
  const experts = betas.flatMap((beta, layer) =>
    Array.from({ length: TOKENS }, (_, t) => draw(layer * TOKENS + t, beta)),
  );
  return {
    ...sequence,
    ...{ experts: Uint16Array.from(experts), logits: new Float32Array(experts.length), top: 1 },
  };
}

const source = {
  shape: { layers: 2, experts: E },
  predict: (_input, k, experts, _alpha, _chance, out) => {
    out!.set(logits);
    for (let row = 0; row * k < experts.length; row++) experts.set(orderOf(row).slice(0, k), row * k);
    return true;
  },
} as LogitSource;

describe('chance sharpness', () => {
  it('finds the sharpness that the experts of each layer were drawn with', () => {
    const [first, second] = fitSharpness(source, drawn([0.5, 6]), 1).chance;
    expect(first).toBeGreaterThan(0.4);
    expect(first).toBeLessThan(0.6);
    expect(second).toBeGreaterThan(5.6);
    expect(second).toBeLessThan(6.4);
  });

  it('stays within its bounds if the best expert is always right or never right', () => {
    const [always, never] = fitSharpness(source, drawn([1e6, -1e6]), 1).chance;
    expect(always).toBeGreaterThan(100);
    expect(always).toBeLessThanOrEqual(1000);
    expect(never).toBeGreaterThanOrEqual(0.001);
    expect(never).toBeLessThan(0.002);
  });

  it('is 1 without tokens and without finite logits', () => {
    const records = drawn([1, 1]);
    const none = { ...records, tokens: new Int32Array(), offsets: Int32Array.of(0, 0) };
    const ones = { alpha: [1, 1], chance: [1, 1] };
    expect(fitSharpness(source, none, 1)).toEqual(ones);
    expect(fitSharpness({ ...source, predict: () => false }, records, 1)).toEqual(ones);
  });
});

describe('alpha sharpness', () => {
  it.each([
    [E, 1e-3],
    [E / 2, 0.1],
  ])("finds the scale of each layer's router logits from %d recorded ones", (top, tolerance) => {
    const betas = [0.05, 3];
    fitSharpness(source, scaled(betas, top), 1).alpha.forEach((found, layer) => {
      expect(Math.abs(found / betas[layer]! - 1)).toBeLessThan(tolerance);
    });
  });
});
