/** Plans the memory of a checkpoint whose weights are not there: its config tells every size. */
import { copyFileSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { readJsonFile } from '../files/json-file.js';
import { loadAddon } from '../native/addon.js';
import type { PackFormats } from '../native/addon-types.js';
import { MANIFEST, PACK_VERSION } from './manifest.js';

/** The file of weights by its form; the addon takes the first. Shards have an index instead. */
export const WEIGHTS = { safetensors: 'model.safetensors', pytorch: 'pytorch_model.bin' } as const;
export const indexOf = (file: string) => `${file}.index.json`;
const TYPES: Record<string, PackFormats['dense']> = {
  float32: { dtype: 'f32' },
  bfloat16: { dtype: 'bf16' },
  // bf16 would round these.
  float16: { dtype: 'f32' },
};

const configSchema = z.object({
  torch_dtype: z.string().optional(),
  dtype: z.string().optional(),
  quantization_config: z.object({ quant_method: z.string().optional() }).optional(),
});

/** Whether a directory is a checkpoint without weights that sida reads. */
export function hasOnlyConfig(directory: string): boolean {
  const there = (name: string) => existsSync(join(directory, name));
  return there('config.json') && !Object.values(WEIGHTS).some((name) => there(name) || there(indexOf(name)));
}

/** The types that the config tells: those of the weights, unless they are quantized. */
export function configFormats(directory: string): PackFormats {
  const rules = { code: 'checkpoint_invalid' } as const;
  const config = readJsonFile(directory, 'config.json', configSchema, rules)!;
  const dense = TYPES[config.dtype ?? config.torch_dtype ?? 'float32'] ?? { dtype: 'f32' };
  if (config.quantization_config === undefined) return { experts: dense, dense };
  const experts = config.quantization_config.quant_method === 'mxfp4' ? 'mxfp4' : 'bf16';
  return { experts: { dtype: experts }, dense: { dtype: 'bf16' } };
}

/** Calls `body` with a directory that is a pack of the model, without weights: its config and its manifest. */
export function withConfigPack<T>(directory: string, formats: PackFormats, body: (pack: string) => T): T {
  const { shape: _, ...layout } = loadAddon().describePack({ config: directory, ...formats });
  const pack = mkdtempSync(join(tmpdir(), 'sida-plan-'));
  try {
    for (const name of ['config.json', 'generation_config.json']) {
      if (existsSync(join(directory, name))) copyFileSync(join(directory, name), join(pack, name));
    }
    const manifest = { format: 'sida-pack', version: PACK_VERSION, ...layout };
    writeFileSync(join(pack, MANIFEST), JSON.stringify(manifest));
    return body(pack);
  } finally {
    rmSync(pack, { recursive: true });
  }
}
