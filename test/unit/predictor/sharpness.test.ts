import { describe, expect, it } from 'vitest';
import { randomOf } from '../../../src/predictor/training/random.js';
import { fitSharpness, type LogitSource } from '../../../src/predictor/training/sharpness.js';
import type { TeacherRecord } from '../../../src/predictor/training/teacher.js';

const E = 16;
const TOKENS = 4000;
const random = randomOf(3);
/** (layers, tokens, E). */
const logits = Float32Array.from({ length: 2 * TOKENS * E }, () => random() * 2);

/** The true expert drawn with softmax(β · logits). */
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

/** Experts by falling logit. */
function orderOf(row: number): number[] {
  const own = logits.subarray(row * E, row * E + E);
  return Array.from(own, (_, e) => e).sort((a, b) => own[b]! - own[a]!);
}

/** A router whose logits are those of the network times each layer's β, of which `top` are recorded. */
function scaledRecords(betas: readonly number[], top: number): TeacherRecord[] {
  const rows = Array.from({ length: betas.length * TOKENS }, (_, row) => orderOf(row).slice(0, top));
  const encoder = {
    tokens: new Int32Array(TOKENS),
    experts: Uint16Array.from(rows.flat()),
    logits: Float32Array.from(
      rows.flatMap((experts, row) =>
        experts.map((e) => betas[Math.floor(row / TOKENS)]! * logits[row * E + e]!),
      ),
    ),
  };
  const decoder = { tokens: new Int32Array(0), experts: new Uint16Array(0), logits: new Float32Array(0) };
  return [{ line: 0, top, encoder, decoder }];
}

function recordsOf(betas: readonly number[]): TeacherRecord[] {
  const experts = betas.flatMap((beta, layer) =>
    Array.from({ length: TOKENS }, (_, t) => draw(layer * TOKENS + t, beta)),
  );
  const side = { tokens: new Int32Array(TOKENS), logits: new Float32Array(experts.length) };
  const encoder = { ...side, experts: Uint16Array.from(experts) };
  const decoder = { tokens: new Int32Array(0), experts: new Uint16Array(0), logits: new Float32Array(0) };
  return [{ line: 0, top: 1, encoder, decoder }];
}

const source = {
  shape: { layers: 2, experts: E },
  predict: (_input, _k, experts, _alpha, _chance, out) => {
    out!.set(logits);
    for (let row = 0; row < experts.length; row++) experts[row] = orderOf(row)[0]!;
    return true;
  },
} as LogitSource;

describe('chance sharpness', () => {
  it('finds the temperature that the experts were drawn with, of each layer', () => {
    const [first, second] = fitSharpness(source, 'encoder', recordsOf([0.5, 6])).chance;
    expect(first).toBeGreaterThan(0.4);
    expect(first).toBeLessThan(0.6);
    expect(second).toBeGreaterThan(5.6);
    expect(second).toBeLessThan(6.4);
  });

  it('stays within its bounds where the best is always right, and where it never is', () => {
    const [always, never] = fitSharpness(source, 'encoder', recordsOf([1e6, -1e6])).chance;
    expect(always).toBeGreaterThan(100);
    expect(always).toBeLessThanOrEqual(1000);
    expect(never).toBeGreaterThanOrEqual(0.001);
    expect(never).toBeLessThan(0.002);
  });

  it('is 1 without tokens and without finite logits', () => {
    const records = recordsOf([1, 1]);
    const ones = { alpha: [1, 1], chance: [1, 1] };
    expect(fitSharpness(source, 'decoder', records)).toEqual(ones);
    expect(fitSharpness({ ...source, predict: () => false }, 'encoder', records)).toEqual(ones);
  });
});

describe('alpha sharpness', () => {
  it.each([
    [E, 1e-3],
    [E / 2, 0.1],
  ])('finds what the router is flatter by, of each layer, from %d recorded logits', (top, tolerance) => {
    const betas = [0.05, 3];
    fitSharpness(source, 'encoder', scaledRecords(betas, top)).alpha.forEach((found, layer) => {
      expect(Math.abs(found / betas[layer]! - 1)).toBeLessThan(tolerance);
    });
  });
});
