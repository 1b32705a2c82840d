import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { convertCheckpoint } from '../../src/checkpoint/converter.js';
import {
  addon,
  changeWeights,
  fresh,
  openPredictor,
  predictAll,
  root,
  savedPredictor,
  shape,
  task,
  thrown,
  WORDS,
} from './predictor-fixture.js';

const MINI = join(import.meta.dirname, '../../models/switch-mini');

describe('token embedding', () => {
  it('is the same from a checkpoint, a pack in panels and a file', async () => {
    const { pack } = await convertCheckpoint({
      model: MINI,
      out: join(root, 'pack'),
      experts: 'auto',
      dense: 'auto',
    });
    const checkpoint = new addon.TokenEmbedding({ checkpoint: MINI });
    const files = [checkpoint, new addon.TokenEmbedding({ pack })].map((source) => {
      const file = join(fresh(), 'embedding.safetensors');
      source.save(file);
      return file;
    }) as [string, string];
    expect(readFileSync(files[1]).equals(readFileSync(files[0]))).toBe(true);
    const again = new addon.TokenEmbedding({ file: files[0] });
    expect([again.vocab, again.dModel]).toEqual([checkpoint.vocab, checkpoint.dModel]);
    expect(checkpoint.vocab).toBe(8000);
    const file = join(fresh(), 'again.safetensors');
    again.save(file);
    expect(readFileSync(file).equals(readFileSync(files[0]))).toBe(true);
  });
});

describe('prediction', () => {
  it('ranks by logit and gives the softmax over all experts, also in shared memory', () => {
    const predictor = openPredictor(savedPredictor());
    const batch = task(5);
    const { experts, alpha, logits } = predictAll(predictor, batch, 6);
    for (let row = 0; row < 2 * batch.tokens.length; row += 1) {
      const z = Array.from(logits.subarray(row * 6, row * 6 + 6));
      const order = z.map((_, e) => e).sort((a, b) => (z[b] as number) - (z[a] as number) || a - b);
      expect(Array.from(experts.subarray(row * 6, row * 6 + 6))).toEqual(order);
      const sum = z.reduce((total, v) => total + Math.exp(v), 0);
      order.forEach((e, i) => {
        expect(alpha[row * 6 + i]).toBeCloseTo(Math.exp(z[e] as number) / sum, 6);
      });
    }
    const shared = new Uint16Array(new SharedArrayBuffer(experts.byteLength / 6));
    const sharedAlpha = new Float32Array(new SharedArrayBuffer(alpha.byteLength / 6));
    expect(predictor.predict(batch, 1, shared, sharedAlpha)).toBe(true);
    expect(shared).toEqual(experts.filter((_, i) => i % 6 === 0));
    expect(Array.from(sharedAlpha)).toEqual(Array.from(alpha.filter((_, i) => i % 6 === 0)));
  });

  it('gives the same bits with any number of threads, and reports its memory', () => {
    const directory = savedPredictor({ summary: true });
    const batch = task(5, true, 200);
    const one = openPredictor(directory);
    const folded = 2 * WORDS * shape.hidden * 4;
    expect(one.bytes).toBeGreaterThan(folded);
    expect(one.bytes).toBeLessThan(folded + 200_000);
    const a = predictAll(one, batch);
    const b = predictAll(openPredictor(directory, 3), batch);
    expect(Buffer.from(b.logits.buffer).equals(Buffer.from(a.logits.buffer))).toBe(true);
    expect(b.experts).toEqual(a.experts);
    expect(b.alpha).toEqual(a.alpha);
  });

  it('gives the same results step by step as for the whole sequence', () => {
    for (const overrides of [
      {},
      { summary: true },
      { summary: true, hidden: 32, blocks: 2 },
      { lstmLayers: 1, attentionWeights: 'softmax' } as const,
    ]) {
      const { summary } = { summary: false, ...overrides };
      const predictor = openPredictor(savedPredictor({ ...overrides, causal: true }));
      const batch = task(9, summary, 5);
      const whole = predictAll(predictor, batch);
      const lengths = Array.from(
        { length: 5 },
        (_, s) => (batch.offsets[s + 1] as number) - (batch.offsets[s] as number),
      );
      predictor.begin(Int32Array.of(10, 11, 12, 13, 14), batch.contextTokens, batch.contextOffsets);
      for (let t = 0; t < Math.max(...lengths); t += 1) {
        const live = [0, 1, 2, 3, 4].filter((s) => t < (lengths[s] as number));
        const rows = live.map((s) => (batch.offsets[s] as number) + t);
        const experts = new Uint16Array(2 * live.length * 3);
        const alpha = new Float32Array(2 * live.length * 3);
        const ids = Int32Array.from(live, (s) => s + 10);
        expect(
          predictor.step(
            ids,
            Int32Array.from(rows, (row) => batch.tokens[row] as number),
            3,
            experts,
            alpha,
          ),
        ).toBe(true);
        for (let layer = 0; layer < 2; layer += 1) {
          rows.forEach((row, i) => {
            const at = (layer * batch.tokens.length + row) * 3;
            const here = (layer * live.length + i) * 3;
            expect(experts.subarray(here, here + 3)).toEqual(whole.experts.subarray(at, at + 3));
            expect(alpha.subarray(here, here + 3)).toEqual(whole.alpha.subarray(at, at + 3));
          });
        }
      }
      predictor.end(Int32Array.of(10, 11, 99));
      predictor.begin(Int32Array.of(10), batch.tokens.subarray(0, 2), Int32Array.of(0, 2));
    }
  });

  it('refuses to open weights that are not finite, and reports logits that are not finite', () => {
    const directory = savedPredictor({ causal: true });
    changeWeights(directory, (values) => values.fill(Number.NaN, 5, 6));
    const error = thrown(() => openPredictor(directory));
    expect(error.code).toBe('checkpoint_invalid');
    expect(error.message).toMatch(/element 5: expected a finite number/);
    changeWeights(directory, (values) => values.fill(3e38));
    const predictor = openPredictor(directory);
    const batch = task(5);
    expect(predictAll(predictor, batch).finite).toBe(false);
    predictor.begin(Int32Array.of(1));
    expect(
      predictor.step(Int32Array.of(1), Int32Array.of(1), 1, new Uint16Array(2), new Float32Array(2)),
    ).toBe(false);
  });
});
