// Packs of other element types than the checkpoint's, by the converter; and a comparison that finds damage.
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { convertCheckpoint } from '../../src/checkpoint/converter.js';
import { verifyPack } from '../../src/checkpoint/manifest.js';
import { verifyWeights } from '../../src/checkpoint/verify-weights.js';
import type { PackFormats } from '../../src/native/addon-types.js';
import { addon, fresh, MINI, openEngine } from './fixture.js';

const limits = { maxBatchTokens: 256, kvTokens: 512, threads: 2 };
const FORMATS: PackFormats[] = [
  { experts: { dtype: 'bf16c' }, dense: { dtype: 'bf16' } },
  { experts: { dtype: 'int8' }, dense: { dtype: 'int8' } },
  { experts: { dtype: 'int4', group: 64 }, dense: { dtype: 'bf16' } },
];

describe.each(FORMATS)('experts $experts, dense $dense', ({ experts, dense }) => {
  it('are planned like the pack, whose manifest has them, and stay within their error bounds', async () => {
    const { pack } = await convertCheckpoint({ model: MINI, out: join(fresh(), 'pack'), experts, dense });
    const manifest = JSON.parse(readFileSync(join(pack, 'manifest.json'), 'utf8'));
    expect(manifest).toMatchObject({ version: 3, experts, dense });
    const embedding = manifest.dense.tensors.find(({ name }: { name: string }) => name === 'embedding');
    expect(embedding).toMatchObject({ dtype: dense.dtype, layout: 'panels' });
    const small = manifest.dense.tensors.filter(({ name }: { name: string }) =>
      /norm|router|bias/.test(name),
    );
    expect(new Set(small.map(({ dtype }: { dtype: string }) => dtype))).toEqual(new Set(['f32']));
    const fromCheckpoint = addon.planMemory({ checkpoint: MINI, experts, dense }, limits);
    expect(addon.planMemory({ pack }, limits)).toEqual(fromCheckpoint);
    const engine = openEngine(pack, limits);
    expect(engine.formats).toEqual({ experts, dense });
    engine.close();
    const { experts: own, dense: rest } = await verifyWeights({ model: MINI, pack });
    for (const { largest, bound } of [own, rest]) expect(largest).toBeLessThanOrEqual(bound);
    expect(own.largest > 0).toBe(experts.dtype !== 'bf16c');
  });
});

describe('a wrong scale', () => {
  it('is found by comparing weights when the hash matches', async () => {
    const out = join(fresh(), 'damaged');
    const { pack } = await convertCheckpoint({ model: MINI, out, experts: 'int8', dense: 'auto' });
    const path = join(pack, 'experts.sida');
    const bytes = readFileSync(path);
    const { block_bytes } = JSON.parse(readFileSync(join(pack, 'manifest.json'), 'utf8')).experts;
    // The scale of expert 7 of the second MoE layer, in column 2 of the first panel of the up projection. The panel's
    // codes, 128 inputs × 32 columns, come before its scales.
    const at = (64 + 7) * block_bytes + 128 * 32 + 2 * 4;
    bytes.writeFloatLE(bytes.readFloatLE(at) * 1.5, at);
    writeFileSync(path, bytes);
    await expect(verifyPack(pack)).rejects.toThrow(/experts\.sida: sha256/);
    const sha256 = createHash('sha256').update(bytes).digest('hex');
    const manifest = JSON.parse(readFileSync(join(pack, 'manifest.json'), 'utf8'));
    for (const file of manifest.files) if (file.name === 'experts.sida') file.sha256 = sha256;
    writeFileSync(join(pack, 'manifest.json'), JSON.stringify(manifest));
    await verifyPack(pack);
    await expect(verifyWeights({ model: MINI, pack })).rejects.toThrow(
      /experts\.sida: encoder\.3 expert 7: up: relative error of row 2: expected at most 0\.394 %, found \d/,
    );
  });
});
