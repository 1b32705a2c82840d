import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { leftOut } from '../../../src/checkpoint/left-out.js';

const model = mkdtempSync(join(tmpdir(), 'sida-left-out-'));
afterAll(() => rmSync(model, { recursive: true }));

it('names the parts of a checkpoint that are not served', () => {
  const others = [
    'model.visual.blocks.0.norm1.weight',
    'model.visual.patch_embed.proj.weight',
    'mtp.layers.0.input_layernorm.weight',
    'model.layers.61.eh_proj.weight',
    'blk.47.nextn.eh_proj.weight',
    'vision_tower.encoder.layers.0.mlp.weight',
    'model.layers.0.self_attn.rotary_emb.inv_freq',
    'rope_freqs.weight',
  ];
  const parts = [
    'model.visual (2 tensors)',
    'mtp (1 tensor)',
    'model.layers.61 (1 tensor)',
    'blk.47 (1 tensor)',
    'vision_tower (1 tensor)',
  ];
  expect(leftOut(model, others)).toBe(`Not served: ${parts.join(', ')}`);
});

it('names an adapter, and at most eight parts', () => {
  expect(leftOut(model, ['model.layers.0.self_attn.rotary_emb.inv_freq'])).toBeUndefined();
  writeFileSync(join(model, 'adapter_model.safetensors'), '');
  expect(leftOut(model, [])).toBe('Not served: adapter_model.safetensors');
  const others = Array.from({ length: 10 }, (_, at) => `part_${at}.weight`);
  expect(leftOut(model, others)).toMatch(
    /^Not served: part_0 \(1 tensor\), .*part_7 \(1 tensor\) and 3 more$/,
  );
});
