import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  diskNeed,
  MODELS,
  modelNamed,
  moeLayers,
  parametersOf,
  SWITCH_MINI,
} from '../../src/scenarios/models.js';

const MINI = join(import.meta.dirname, '../../../models/switch-mini');

describe('models', () => {
  it('counts the parameters of the bundled model as its checkpoint has them', () => {
    const file = readFileSync(join(MINI, 'model.safetensors'));
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
    expect(parametersOf(SWITCH_MINI.shape)).toEqual({ all, experts });
  });

  it('describes the bundled model as its config does', () => {
    const config = JSON.parse(readFileSync(join(MINI, 'config.json'), 'utf8'));
    expect(SWITCH_MINI.shape).toEqual({
      dModel: config.d_model,
      dFf: config.d_ff,
      dKv: config.d_kv,
      heads: config.num_heads,
      layers: config.num_layers,
      experts: config.num_experts,
      vocab: config.vocab_size,
    });
    expect(moeLayers(SWITCH_MINI.shape)).toBe(4);
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
