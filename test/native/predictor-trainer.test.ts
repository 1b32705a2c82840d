import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { addon, root, thrown } from './fixture.js';
import { embedding, settings, shape, task, trained, WIDTH, WORDS } from './predictor-fixture.js';

describe('training', () => {
  it('refuses batches that do not fit, and changes nothing', () => {
    const trainer = trained({}, 1);
    const batch = task(1);
    const step = (changes: object) => thrown(() => trainer.step({ ...batch, ...changes }, 1e-2));
    const before = trainer.evaluate(batch).loss;
    for (const changes of [
      { experts: batch.experts.subarray(1) },
      { logits: new Float64Array(batch.logits) },
      { experts: new Uint16Array(batch.experts.length).fill(6) },
      { logits: new Float32Array(batch.logits.length).fill(Number.NaN) },
      { top: 0 },
      { top: 1.5 },
      { tokens: Int32Array.from(batch.tokens, () => WORDS) },
      { tokens: Array.from(batch.tokens) },
      { offsets: batch.offsets.subarray(1) },
      { offsets: undefined },
    ]) {
      expect(step(changes).code, JSON.stringify(Object.keys(changes))).toBe('invalid_request');
    }
    expect(step({ experts: batch.experts.subarray(1) }).details).toEqual({
      expected: batch.experts.length,
      found: batch.experts.length - 1,
    });
    expect(thrown(() => trainer.step(batch, Number.NaN)).message).toMatch(/learningRate/);
    expect(thrown(() => trainer.step(undefined as never, 1)).code).toBe('invalid_request');
    expect(thrown(() => trainer.save(join(root, 'nowhere'), true)).code).toBe('io_error');
    expect(trainer.evaluate(batch).loss).toBe(before);
    expect(trainer.steps).toBe(1);
    trainer.close();
    trainer.close();
    expect(thrown(() => trainer.evaluate(batch)).message).toMatch(/closed/);
    expect(thrown(() => trainer.shape).message).toMatch(/closed/);
  });

  it('refuses shapes and settings out of range by name', () => {
    const open = (overrides: object, other: object = {}) =>
      thrown(
        () =>
          new addon.PredictorTrainer({
            embedding,
            settings,
            shape: { ...shape, ...overrides },
            seed: 1,
            ...other,
          }),
      );
    for (const [name, value] of [
      ['hidden', 0],
      ['hidden', 1.5],
      ['experts', 70000],
      ['layers', '2'],
      ['causal', 1],
      ['blocks', 5],
      ['lstmLayers', 3],
      ['lstmLayers', 0],
      ['attentionWeights', 'entmax'],
      ['summary', undefined],
    ]) {
      expect(open({ [name as string]: value }).message).toContain(`"${name}"`);
    }
    for (const [name, value] of Object.entries({
      beta1: 1,
      epsilon: 0,
      weightDecay: -1,
      top: 0,
      sharpness: -1,
      lambda: Number.NaN,
      distillation: 'l2',
      clipNorm: -1,
      threads: 0,
    })) {
      const error = open({}, { settings: { ...settings, [name]: value } });
      expect(error.code).toBe('invalid_request');
      expect(error.message).toContain(`"${name}"`);
    }
    expect(open({ bidirectional: true, causal: true }).message).toMatch(/causal .*bidirectional/);
    expect(open({ bidirectional: true, hidden: 7 }).message).toMatch(/even, found 7/);
    expect(open({ blocks: 1 }).message).toMatch(/multiple of 16, found 24/);
    expect(open({ dIn: WIDTH + 1 }).details).toEqual({ expected: WIDTH + 1, found: WIDTH });
    expect(open({}, { seed: -1 }).message).toContain('"seed"');
    expect(open({}, { embedding: {} }).message).toContain('TokenEmbedding');
    expect(open({}, { embedding: trained({}, 0) }).message).toContain('TokenEmbedding');
    const missing = open({}, { directory: join(root, 'none') });
    expect(missing.code).toBe('checkpoint_invalid');
    expect(missing.message).toMatch(/: missing/);
  });
});
