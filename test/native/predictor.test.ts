import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { addon, fresh, MINI, packOf } from './fixture.js';
import { openPredictor, predictAll, savedPredictor, shape, task, WORDS } from './predictor-fixture.js';

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
  it('fills shared memory as it fills other memory, and reports its memory', () => {
    const predictor = openPredictor(savedPredictor());
    const folded = WORDS * shape.hidden * 4;
    expect(predictor.bytes).toBeGreaterThan(folded);
    expect(predictor.bytes).toBeLessThan(folded + 200_000);
    const batch = task(5);
    const { experts, alpha } = predictAll(predictor, batch, 6);
    const shared = new Uint16Array(new SharedArrayBuffer(experts.byteLength / 6));
    const sharedAlpha = new Float32Array(new SharedArrayBuffer(alpha.byteLength / 6));
    expect(predictor.predict(batch, 1, shared, sharedAlpha)).toBe(true);
    expect(shared).toEqual(experts.filter((_, i) => i % 6 === 0));
    expect(Array.from(sharedAlpha)).toEqual(Array.from(alpha.filter((_, i) => i % 6 === 0)));
  });
});
