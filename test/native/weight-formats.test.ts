// Packs of every element type with the addon: exact plans, detection of damage, refusal of other formats.
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { convertCheckpoint } from '../../src/checkpoint/converter.js';
import { verifyPack } from '../../src/checkpoint/manifest.js';
import { verifyWeights } from '../../src/checkpoint/verify-weights.js';
import { formatName } from '../../src/checkpoint/weight-format.js';
import { loadAddon } from '../../src/native/addon.js';
import type { PackFormats } from '../../src/native/addon-types.js';

const MINI = join(import.meta.dirname, '../../models/switch-mini');
const root = mkdtempSync(join(tmpdir(), 'sida-formats-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const limits = { maxBatchTokens: 256, kvTokens: 512, threads: 2 };
const addon = loadAddon();
const ONE = Int32Array.of(1);
const tokens = Int32Array.from({ length: 200 }, (_, i) => (i * 37) % 8000);

const FORMATS: PackFormats[] = [
  { experts: { dtype: 'f32' }, dense: { dtype: 'f32' } },
  { experts: { dtype: 'bf16' }, dense: { dtype: 'bf16' } },
  { experts: { dtype: 'int8' }, dense: { dtype: 'f32' } },
  { experts: { dtype: 'int8' }, dense: { dtype: 'int8' } },
  ...[32, 64, 128].map((group) => ({ experts: { dtype: 'int4', group }, dense: { dtype: 'bf16' } }) as const),
];

describe.each(FORMATS)('experts $experts, dense $dense', ({ experts, dense }) => {
  const pack = join(root, `${formatName(experts)}-${formatName(dense)}`);
  beforeAll(async () => {
    await convertCheckpoint({ model: MINI, out: pack, experts, dense });
  });

  it('are the formats of the pack and its engine', () => {
    const manifest = JSON.parse(readFileSync(join(pack, 'manifest.json'), 'utf8'));
    expect(manifest).toMatchObject({ version: 3, experts, dense });
    const embedding = manifest.dense.tensors.find(({ name }: { name: string }) => name === 'embedding');
    expect(embedding).toMatchObject({ dtype: dense.dtype, layout: 'panels' });
    const small = manifest.dense.tensors.filter(({ name }: { name: string }) =>
      /norm|router|bias/.test(name),
    );
    expect(new Set(small.map(({ dtype }: { dtype: string }) => dtype))).toEqual(new Set(['f32']));
  });

  it.each([1, 0.25, 0])('are planned to the byte with a share of %s of the experts', (share) => {
    const fromCheckpoint = addon.planMemory({ checkpoint: MINI, experts, dense }, limits);
    const plan = addon.planMemory({ pack }, limits);
    expect(plan).toEqual(fromCheckpoint);
    const budgetBytes = Math.max(plan.smallest, plan.fixed + share * plan.expertBytes);
    const slots = Math.floor((budgetBytes - plan.fixed) / plan.slot);
    const tier = { hostBudgetBytes: 0, linkBandwidth: 0, linkLatency: 0 };
    const engine = new addon.Engine({ pack, budgetBytes, ...tier, ...limits });
    try {
      expect(engine.formats).toEqual({ experts, dense });
      engine.runBatch({ stack: 0, sequences: ONE, offsets: Int32Array.of(0, tokens.length), tokens }, null);
      const { peakBytes } = engine.usage();
      const planned = plan.fixed + slots * plan.slot;
      expect(Math.abs(peakBytes / planned - 1)).toBeLessThan(0.05);
      expect(peakBytes).toBeLessThanOrEqual(budgetBytes);
    } finally {
      engine.close();
    }
  });

  it('stay within their error bounds of the checkpoint', async () => {
    const { experts: own, dense: rest } = await verifyWeights({ model: MINI, pack });
    for (const { largest, bound } of [own, rest]) expect(largest).toBeLessThanOrEqual(bound);
    const lossless = experts.dtype === 'f32' || experts.dtype === 'bf16';
    expect(own.largest > 0).toBe(!lossless);
  });
});

describe('a wrong scale', () => {
  it('is found by comparing weights when the hash matches', async () => {
    const pack = join(root, 'damaged');
    await convertCheckpoint({ model: MINI, out: pack, experts: 'int8', dense: 'auto' });
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
