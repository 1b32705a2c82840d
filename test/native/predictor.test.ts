import { readFileSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { addon, fresh, MINI, packOf, thrown } from './fixture.js';
import {
  openPredictor,
  predictAll,
  savedPredictor,
  settings,
  shape,
  task,
  WORDS,
} from './predictor-fixture.js';

describe('token embedding', () => {
  it('is the same from a checkpoint, a pack in panels and a file', async () => {
    const pack = await packOf(MINI);
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
  it('reads a closed embedding, and throws when its pack can no longer be read', async () => {
    const pack = await packOf(MINI);
    const source = new addon.TokenEmbedding({ pack });
    const directory = fresh();
    const own = { ...shape, dIn: source.dModel };
    const trainer = new addon.PredictorTrainer({ embedding: source, settings, shape: own, seed: 7 });
    trainer.save(directory, false);
    trainer.close();
    const predictor = new addon.Predictor({ directory, embedding: source, threads: 2 });
    source.close();
    expect(thrown(() => source.vocab).message).toMatch(/closed/);
    const known = { ...task(5), tokens: task(5).tokens.map((word) => word * 300) };
    const { finite, experts } = predictAll(predictor, known);
    expect(finite).toBe(true);
    truncateSync(join(pack, 'dense.sida'), 0);
    const { code, message } = thrown(() => predictAll(predictor, task(5)));
    expect(code).toBe('io_error');
    expect(message).toMatch(/dense\.sida: ends early/);
    expect(predictAll(predictor, known).experts).toEqual(experts);
  });

  it('fills shared memory as it fills other memory, and reports its memory', () => {
    const predictor = openPredictor(savedPredictor());
    const products = WORDS * shape.hidden * 4;
    expect(predictor.bytes).toBeGreaterThan(products);
    expect(predictor.bytes).toBeLessThan(products + 200_000);
    const batch = task(5);
    const { experts, alpha } = predictAll(predictor, batch, 6);
    const shared = new Uint16Array(new SharedArrayBuffer(experts.byteLength / 6));
    const sharedAlpha = new Float32Array(new SharedArrayBuffer(alpha.byteLength / 6));
    expect(predictor.predict(batch, 1, shared, sharedAlpha)).toBe(true);
    expect(shared).toEqual(experts.filter((_, i) => i % 6 === 0));
    expect(Array.from(sharedAlpha)).toEqual(Array.from(alpha.filter((_, i) => i % 6 === 0)));
  });
});
