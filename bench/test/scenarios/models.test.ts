import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parseBytes } from '../../../src/text/bytes.js';
import {
  type BenchModel,
  diskNeed,
  MODELS,
  modelNamed,
  moeLayers,
  parametersOf,
  SWITCH_MINI,
  SWITCH_WORDS,
  SWITCH_WORDS_PADDED,
} from '../../src/scenarios/models.js';

const BUNDLED = [SWITCH_MINI, SWITCH_WORDS].map((model) => [model.name, model] as const);
const fileOf = (model: BenchModel, name: string) =>
  readFileSync(join(import.meta.dirname, '../../../models', model.name, name));

describe('models', () => {
  it.each(BUNDLED)('counts the parameters of %s as its checkpoint has them', (_, model) => {
    const file = fileOf(model, 'model.safetensors');
    const header = JSON.parse(file.subarray(8, 8 + Number(file.readBigUInt64LE(0))).toString()) as Record<
      string,
      { shape?: number[] }
    >;
    let [all, experts] = [0, 0];
    for (const [name, { shape }] of Object.entries(header)) {
      if (shape === undefined) continue;
      const count = shape.reduce((product, size) => product * size, 1);
      all += count;
      if (name.includes('.experts.')) experts += count;
    }
    expect(parametersOf(model.shape)).toEqual({ all, experts });
  });

  it.each(BUNDLED)('describes %s as its config does', (_, model) => {
    const config = JSON.parse(fileOf(model, 'config.json').toString());
    expect(model.shape).toEqual({
      dModel: config.d_model,
      dFf: config.d_ff,
      dKv: config.d_kv,
      heads: config.num_heads,
      layers: config.num_layers,
      sparseStep: config.encoder_sparse_step,
      experts: config.num_experts,
      vocab: config.vocab_size,
    });
    expect(moeLayers(model.shape)).toBe(config.num_sparse_encoder_layers + config.num_sparse_decoder_layers);
  });

  it('pads switch-words to the least width, in panels of 32, with experts of the named size', () => {
    const { shape, expertBytes, folder } = SWITCH_WORDS_PADDED;
    const bytesOf = (dFf: number) => 2 * shape.dModel * dFf * 2;
    expect(folder).toBe('switch-words');
    expect(shape.dFf % 32).toBe(0);
    expect(bytesOf(shape.dFf)).toBeGreaterThanOrEqual(parseBytes(expertBytes!)!);
    expect(bytesOf(shape.dFf - 32)).toBeLessThan(parseBytes(expertBytes!)!);
    expect({ ...shape, dFf: 0 }).toEqual({ ...SWITCH_WORDS.shape, dFf: 0 });
    // Its checkpoint is made, and its pack takes all of the zeros.
    expect(diskNeed(SWITCH_WORDS_PADDED).checkpoint).toBeGreaterThan(256 * 2.65e6);
    expect(diskNeed(SWITCH_WORDS_PADDED).pack).toBeGreaterThan(256 * 2.65e6);
    expect(diskNeed(SWITCH_WORDS).checkpoint).toBe(0);
  });

  it('gives every model a name of its own, and tells the disk it takes while it is made', () => {
    expect(new Set(MODELS.map(({ name }) => name)).size).toBe(MODELS.length);
    const { checkpoint, pack } = diskNeed(modelNamed('switch-base-128-int8'));
    const experts = 12 * 128 * 2 * 768 * 3072;
    expect(checkpoint).toBeGreaterThan(2 * experts);
    expect(pack).toBeGreaterThan(experts);
    expect(pack).toBeLessThan(1.2 * experts);
    expect(diskNeed(SWITCH_MINI).checkpoint).toBe(0);
  });
});
