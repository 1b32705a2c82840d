import { describe, expect, it } from 'vitest';
import type { TrainingBatch } from '../../src/native/addon-types.js';
import { fitSharpness } from '../../src/predictor/training/sharpness.js';
import { addon, fresh } from './fixture.js';
import { embedding, openPredictor, settings, shape, TOP, task } from './predictor-fixture.js';

/** Logits of all experts, best first, of a nearly undecided router. The trace records only the best TOP. */
const FLAT = [0.2, 0.1, 0, -0.1, -0.2, -0.3];
const TRUE_ALPHA = Math.exp(0.2) / FLAT.reduce((sum, z) => sum + Math.exp(z), 0);
const E = shape.experts;
function flatTask(seed: number, sequences?: number): TrainingBatch {
  const batch = task(seed, false, sequences);
  return { ...batch, logits: batch.logits.map((_, i) => FLAT[i % TOP]!) };
}

function sharplyTrained(): string {
  const trainer = new addon.PredictorTrainer({
    embedding,
    settings: { ...settings, sharpness: 20 },
    shape: { ...shape, causal: true },
    seed: 7,
  });
  for (let i = 0; i < 200; i++) trainer.step(flatTask(i), 1e-2);
  const directory = fresh();
  trainer.save(directory, false);
  trainer.close();
  return directory;
}

describe('a network trained with a sharpened teacher', () => {
  const directory = sharplyTrained();
  const unfitted = openPredictor(directory);
  const sharpness = fitSharpness(unfitted, flatTask(1000, 100), 1);
  const predictor = new addon.Predictor({
    directory,
    embedding,
    threads: 1,
    alphaSharpness: Float32Array.from(sharpness.alpha),
    chanceSharpness: Float32Array.from(sharpness.chance),
  });
  const batch = flatTask(2000, 1);
  const n = batch.tokens.length;
  const tables = () => ({
    experts: new Uint16Array(2 * n * E),
    alpha: new Float32Array(2 * n * E),
    chance: new Float32Array(2 * n * E),
  });
  const whole = tables();
  predictor.predict(batch, E, whole.experts, whole.alpha, whole.chance);

  it('matches the alpha of the router only after the sharpness is fitted', () => {
    const test = flatTask(3000, 100);
    const rows = 2 * test.tokens.length;
    const errors = [unfitted, predictor].map((network) => {
      const [experts, alpha] = [new Uint16Array(rows), new Float32Array(rows)];
      expect(network.predict(test, 1, experts, alpha)).toBe(true);
      const hits = [...alpha].filter((_, row) => experts[row] === test.experts[row * TOP]);
      expect(hits.length).toBeGreaterThan(0.9 * rows);
      return hits.reduce((sum, found) => sum + Math.abs(found / TRUE_ALPHA - 1), 0) / hits.length;
    });
    expect(errors[0]).toBeGreaterThan(1);
    expect(errors[1]).toBeLessThan(0.04);
  });

  it('gives its first choice a larger chance than alpha', () => {
    for (let row = 0; row < 2 * n; row++) {
      expect(whole.chance[row * E]).toBeGreaterThan(whole.alpha[row * E]!);
      const sum = (of: Float32Array) => of.subarray(row * E, row * E + E).reduce((a, b) => a + b, 0);
      expect([sum(whole.alpha), sum(whole.chance)]).toEqual([expect.closeTo(1, 5), expect.closeTo(1, 5)]);
    }
  });

  it('gives the same results step by step', () => {
    predictor.begin(Int32Array.of(3));
    for (let t = 0; t < n; t++) {
      const [experts, alpha, chance] = [
        new Uint16Array(2 * E),
        new Float32Array(2 * E),
        new Float32Array(2 * E),
      ];
      predictor.step(Int32Array.of(3), batch.tokens.slice(t, t + 1), E, experts, alpha, chance);
      for (const layer of [0, 1]) {
        const at = (layer * n + t) * E;
        const here = [layer * E, (layer + 1) * E] as const;
        expect(experts.subarray(...here)).toEqual(whole.experts.subarray(at, at + E));
        expect(alpha.subarray(...here)).toEqual(whole.alpha.subarray(at, at + E));
        expect(chance.subarray(...here)).toEqual(whole.chance.subarray(at, at + E));
      }
    }
  });

  it.each(['alphaSharpness', 'chanceSharpness'] as const)('refuses a wrong %s', (name) => {
    const open = (...values: number[]) =>
      new addon.Predictor({ directory, embedding, threads: 1, [name]: Float32Array.from(values) });
    const kind = name.replace('Sharpness', '');
    expect(() => open(1)).toThrow(`the ${kind} sharpness has 1 values, the predictor 2 layers`);
    for (const bad of [0, -1, Number.NaN, Number.POSITIVE_INFINITY, 2e4]) {
      expect(() => open(1, bad)).toThrow(`the ${kind} sharpness of a layer is`);
    }
  });
});
