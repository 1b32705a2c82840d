/** A Switch checkpoint with two layers per stack, small enough to write for each case of a test. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { randomOf } from '../../src/predictor/random.js';
import { byteTokenizer } from './byte-tokenizer.js';

export const TINY_CONFIG = {
  model_type: 'switch_transformers',
  ...{ vocab_size: 10, d_model: 4, d_kv: 2, d_ff: 8, num_heads: 2 },
  ...{ num_layers: 2, num_decoder_layers: 2, num_sparse_encoder_layers: 1, num_sparse_decoder_layers: 1 },
  ...{ num_experts: 3, relative_attention_num_buckets: 8, relative_attention_max_distance: 16 },
};

/** PR-MoE: layers with 2, 8 and 4 experts, in the residual form. byteTokenizer() is its tokenizer. */
export const UNEQUAL_CONFIG = {
  ...TINY_CONFIG,
  ...{ vocab_size: 320, d_model: 16, d_kv: 8, d_ff: 32, num_layers: 4, num_sparse_encoder_layers: 2 },
  ...{ num_experts: [2, 8, 4], mlp_type: 'residual' },
};

export interface TensorEntry {
  dtype: string;
  shape: number[];
  data_offsets: [number, number];
}

/** Shapes of all tensors, by name. Every second layer has experts. */
export function tinyShapes(
  config: typeof TINY_CONFIG | typeof UNEQUAL_CONFIG = TINY_CONFIG,
): Record<string, number[]> {
  const { vocab_size, d_model: d, d_ff, num_experts, num_heads } = config;
  const counts = [num_experts].flat();
  const shapes: Record<string, number[]> = { 'shared.weight': [vocab_size, d] };
  const attention = (prefix: string, kind: string) => {
    shapes[`${prefix}layer_norm.weight`] = [d];
    for (const name of ['q', 'k', 'v', 'o']) shapes[`${prefix}${kind}.${name}.weight`] = [d, d];
  };
  const feedForward = (prefix: string) => {
    shapes[`${prefix}wi.weight`] = [d_ff, d];
    shapes[`${prefix}wo.weight`] = [d, d_ff];
  };
  for (const stack of ['encoder', 'decoder']) {
    const bias = `${stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight`;
    shapes[bias] = [config.relative_attention_num_buckets, num_heads];
    const layers = stack === 'encoder' ? config.num_layers : config.num_decoder_layers;
    for (let layer = 0; layer < layers; layer++) {
      const block = `${stack}.block.${layer}.layer.`;
      attention(`${block}0.`, 'SelfAttention');
      if (stack === 'decoder') attention(`${block}1.`, 'EncDecAttention');
      const last = `${block}${stack === 'decoder' ? 2 : 1}.`;
      shapes[`${last}layer_norm.weight`] = [d];
      if (layer % 2 === 0) {
        feedForward(`${last}mlp.`);
        continue;
      }
      const experts = counts.length > 1 ? counts.shift()! : counts[0]!;
      shapes[`${last}mlp.router.classifier.weight`] = [experts, d];
      for (let expert = 0; expert < experts; expert += 1) feedForward(`${last}mlp.experts.expert_${expert}.`);
      if (!('mlp_type' in config)) continue;
      feedForward(`${last}mlp.mlp.`);
      shapes[`${last}mlp.coefficient.weight`] = [2, d];
      shapes[`${last}mlp.coefficient.bias`] = [2];
    }
    shapes[`${stack}.final_layer_norm.weight`] = [d];
  }
  return shapes;
}

/** Header and data of a safetensors file of float32 zeros. */
export function zeros(shapes: Record<string, number[]>): {
  header: Record<string, TensorEntry>;
  data: Buffer;
} {
  let at = 0;
  const header: Record<string, TensorEntry> = {};
  for (const [name, shape] of Object.entries(shapes)) {
    const end = at + 4 * shape.reduce((product, size) => product * size, 1);
    header[name] = { dtype: 'F32', shape, data_offsets: [at, end] };
    at = end;
  }
  return { header, data: Buffer.alloc(at) };
}

/** The bytes of a safetensors file. `header` is an object or its text. `length` overrides the header's length. */
export function safetensors(
  header: object | string | Buffer,
  data: Buffer = Buffer.alloc(0),
  length?: bigint,
): Buffer {
  const json = Buffer.isBuffer(header)
    ? header
    : Buffer.from(typeof header === 'string' ? header : JSON.stringify(header));
  const prefix = Buffer.alloc(8);
  prefix.writeBigUInt64LE(length ?? BigInt(json.length));
  return Buffer.concat([prefix, json, data]);
}

/** Writes a complete checkpoint to `directory`, which is created if needed. */
export function writeTiny(directory: string): void {
  mkdirSync(directory, { recursive: true });
  const { header, data } = zeros(tinyShapes());
  writeFileSync(join(directory, 'config.json'), JSON.stringify(TINY_CONFIG));
  writeFileSync(join(directory, 'model.safetensors'), safetensors(header, data));
}

/** Writes a checkpoint of UNEQUAL_CONFIG with random weights and a tokenizer. */
export function writeUnequal(directory: string): void {
  mkdirSync(directory, { recursive: true });
  const { header, data } = zeros(tinyShapes(UNEQUAL_CONFIG));
  const random = randomOf(1);
  for (let at = 0; at < data.length; at += 4) data.writeFloatLE(2 * random() - 1, at);
  writeFileSync(join(directory, 'config.json'), JSON.stringify(UNEQUAL_CONFIG));
  writeFileSync(join(directory, 'model.safetensors'), safetensors(header, data));
  writeFileSync(join(directory, 'tokenizer.json'), JSON.stringify(byteTokenizer(1)));
}
