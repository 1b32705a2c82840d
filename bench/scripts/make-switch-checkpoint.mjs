// Writes a random-weight Switch Transformers checkpoint of a Switch-base shape, for experiments whose model is too
// big to ship.
import { closeSync, mkdirSync, openSync, readFileSync, renameSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { SCRIPTS } from '../dist/support/paths.js';
import { optionsOf } from '../dist/support/script.js';

const HELP = `node bench/scripts/make-switch-checkpoint.mjs [--out DIR] [--experts 8] [--dtype f32] [--layers 12]
  [--decoder-layers N] [--vocab 32128] [--d-model 768] [--d-ff 3072] [--heads 12]
--dtype is f32 or bf16. Every second layer is sparse: a decoder of one layer has no experts.`;

const values = optionsOf(HELP);
if (values.out === undefined) throw new Error('--out DIR is required');
const { layers, 'decoder-layers': decoderLayers = layers, experts, 'd-model': d, 'd-ff': ff, heads, vocab } = values;
const dKv = 64;
const inner = heads * dKv;
const bf16 = values.dtype === 'bf16';

function tensors() {
  const list = [];
  const add = (name, shape, std) => list.push({ name, shape, std });
  add('shared.weight', [vocab, d], 1);
  for (const [stack, decoder] of [
    ['encoder', false],
    ['decoder', true],
  ]) {
    for (let i = 0; i < (decoder ? decoderLayers : layers); i++) {
      const block = `${stack}.block.${i}.layer.`;
      const attention = (n, kind) => {
        add(`${block}${n}.layer_norm.weight`, [d], 0);
        add(`${block}${n}.${kind}.q.weight`, [inner, d], (d * dKv) ** -0.5);
        for (const m of ['k', 'v']) add(`${block}${n}.${kind}.${m}.weight`, [inner, d], d ** -0.5);
        add(`${block}${n}.${kind}.o.weight`, [d, inner], inner ** -0.5);
      };
      attention(0, 'SelfAttention');
      if (i === 0) add(`${block}0.SelfAttention.relative_attention_bias.weight`, [32, heads], d ** -0.5);
      if (decoder) attention(1, 'EncDecAttention');
      const mlp = `${block}${decoder ? 2 : 1}.`;
      add(`${mlp}layer_norm.weight`, [d], 0);
      const matrices = (prefix) => {
        add(`${prefix}wi.weight`, [ff, d], d ** -0.5);
        add(`${prefix}wo.weight`, [d, ff], ff ** -0.5);
      };
      if (i % 2 === 1) {
        add(`${mlp}mlp.router.classifier.weight`, [experts, d], d ** -0.5);
        for (let e = 0; e < experts; e++) matrices(`${mlp}mlp.experts.expert_${e}.`);
      } else {
        matrices(`${mlp}mlp.`);
      }
    }
    add(`${stack}.final_layer_norm.weight`, [d], 0);
  }
  return list;
}

// Normal numbers come from a pool of prime length at a moving offset: two tensors share a run of values only
// after the whole pool, so matrices differ, at the speed of a copy.
const POOL = 4_999_999;
const normal = new Float32Array(POOL);
let state = 88172645463325252n;
for (let i = 0; i < POOL; i += 2) {
  state ^= (state << 13n) & 0xffffffffffffffffn;
  state ^= state >> 7n;
  state ^= (state << 17n) & 0xffffffffffffffffn;
  const u = (Number(state >> 32n) + 1) / 4294967297;
  const v = Number(state & 0xffffffffn) / 4294967296;
  const radius = Math.sqrt(-2 * Math.log(u));
  normal[i] = radius * Math.cos(2 * Math.PI * v);
  if (i + 1 < POOL) normal[i + 1] = radius * Math.sin(2 * Math.PI * v);
}
const pools = new Map();
function pool(std, wide) {
  const key = `${std} ${wide}`;
  if (!pools.has(key)) {
    const scaled = normal.map((x) => (std === 0 ? 1 : x * std));
    const rounded = (bits) => (bits + 0x7fff + ((bits >> 16) & 1)) >>> 16;
    const stored = wide ? scaled : Uint16Array.from(new Uint32Array(scaled.buffer), rounded);
    pools.set(key, Buffer.from(stored.buffer));
  }
  return pools.get(key);
}

const header = { __metadata__: { format: 'pt' } };
let total = 0;
const all = tensors().map((tensor) => {
  const wide = !bf16 || tensor.shape.length === 1 || tensor.name.includes('router');
  const bytes = tensor.shape.reduce((a, b) => a * b, 1) * (wide ? 4 : 2);
  header[tensor.name] = {
    dtype: wide ? 'F32' : 'BF16',
    shape: tensor.shape,
    data_offsets: [total, total + bytes],
  };
  total += bytes;
  return { ...tensor, wide, bytes };
});
mkdirSync(values.out, { recursive: true });
const path = join(values.out, 'model.safetensors');
const file = openSync(`${path}.tmp`, 'w');
const json = Buffer.from(JSON.stringify(header));
const length = Buffer.alloc(8);
length.writeBigUInt64LE(BigInt(json.length));
writeSync(file, Buffer.concat([length, json]));
let offset = 0;
for (const { std, wide, bytes } of all) {
  const source = pool(std, wide);
  const unit = wide ? 4 : 2;
  for (let left = bytes; left > 0; ) {
    const from = (offset % POOL) * unit;
    const count = Math.min(left, source.length - from);
    for (let done = 0; done < count; ) done += writeSync(file, source, from + done, count - done);
    left -= count;
    offset += count / unit;
  }
}
closeSync(file);
renameSync(`${path}.tmp`, path);
const config = {
  ...JSON.parse(readFileSync(`${SCRIPTS}shapes/switch-base-128.json`, 'utf8')),
  architectures: ['SwitchTransformersForConditionalGeneration'],
  ...{ d_model: d, d_kv: dKv, d_ff: ff, num_heads: heads, vocab_size: vocab, num_experts: experts },
  ...{ num_layers: layers, num_sparse_encoder_layers: Math.floor(layers / 2) },
  ...{ num_decoder_layers: decoderLayers, num_sparse_decoder_layers: Math.floor(decoderLayers / 2) },
};
writeFileSync(join(values.out, 'config.json'), JSON.stringify(config, null, 1));
