// Writes a pack of an OLMoE shape with random weights, without a checkpoint of its size: for experiments whose model is
// too big to ship. The weights of a small checkpoint of the same widths are packed by the real converter; every matrix
// of the large pack is made of panels drawn at random from those. Routers are drawn afresh.
//   node bench/scripts/larger-than-memory/make-olmoe-pack.mjs --out DIR [--experts int4] [--dense int8] [--layers 16]
//     [--count 64] [--seed 1]
// The scale of the embeddings against the other weights (0.02) decides how much of a router's input is the token's own,
// and so how alike the experts of neighbouring tokens are; 1 gives hit rates like those reported of OLMoE-7B.
import {
  closeSync,
  ftruncateSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { convertCheckpoint } from '../../../dist/checkpoint/converter.js';
import { hashFile, PACK_VERSION, writeManifest } from '../../../dist/checkpoint/manifest.js';
import { loadAddon } from '../../../dist/native/addon.js';

const { values } = parseArgs({
  options: {
    out: { type: 'string' },
    experts: { type: 'string', default: 'int4' },
    dense: { type: 'string', default: 'int8' },
    layers: { type: 'string', default: '16' },
    count: { type: 'string', default: '64' },
    'top-k': { type: 'string', default: '8' },
    width: { type: 'string', default: '2048' },
    'expert-width': { type: 'string', default: '1024' },
    heads: { type: 'string', default: '16' },
    vocab: { type: 'string', default: '50304' },
    embedding: { type: 'string', default: '1' },
    seed: { type: 'string', default: '1' },
  },
});
if (values.out === undefined) throw new Error('--out DIR is required');
const out = values.out;
const width = Number(values.width);
const expertWidth = Number(values['expert-width']);
const PANEL = 32;
const WEIGHT_STD = 0.02;

/** Numbers in [0, 1) from a seed (mulberry32). */
function randomNumbers(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}
const random = randomNumbers(Number(values.seed));

function fillNormal(floats, std) {
  for (let i = 0; i < floats.length; i += 2) {
    const radius = std * Math.sqrt(-2 * Math.log(1 - random()));
    const angle = 2 * Math.PI * random();
    floats[i] = radius * Math.cos(angle);
    if (i + 1 < floats.length) floats[i + 1] = radius * Math.sin(angle);
  }
}

function configOf({ layers, experts, vocab }) {
  return {
    model_type: 'olmoe',
    vocab_size: vocab,
    hidden_size: width,
    intermediate_size: expertWidth,
    num_hidden_layers: layers,
    num_attention_heads: Number(values.heads),
    num_key_value_heads: Number(values.heads),
    num_experts: experts,
    num_experts_per_tok: Math.min(Number(values['top-k']), experts),
    norm_topk_prob: false,
    hidden_act: 'silu',
    max_position_embeddings: 4096,
    rms_norm_eps: 1e-5,
    rope_theta: 10000,
    attention_bias: false,
    tie_word_embeddings: false,
    pad_token_id: 1,
    eos_token_id: 0,
  };
}

/** Names and shapes of a checkpoint's tensors, standard deviation of each; 0 is ones. */
function tensorsOf({ layers, experts, vocab }) {
  const list = [{ name: 'model.embed_tokens.weight', shape: [vocab, width], std: Number(values.embedding) }];
  const add = (name, shape, std = WEIGHT_STD) => list.push({ name, shape, std });
  for (let i = 0; i < layers; i++) {
    const layer = `model.layers.${i}.`;
    add(`${layer}input_layernorm.weight`, [width], 0);
    add(`${layer}post_attention_layernorm.weight`, [width], 0);
    for (const m of ['q', 'k', 'v', 'o']) add(`${layer}self_attn.${m}_proj.weight`, [width, width]);
    for (const m of ['q', 'k']) add(`${layer}self_attn.${m}_norm.weight`, [width], 0);
    add(`${layer}mlp.gate.weight`, [experts, width]);
    for (let e = 0; e < experts; e++) {
      for (const m of ['gate', 'up']) add(`${layer}mlp.experts.${e}.${m}_proj.weight`, [expertWidth, width]);
      add(`${layer}mlp.experts.${e}.down_proj.weight`, [width, expertWidth]);
    }
  }
  add('model.norm.weight', [width], 0);
  add('lm_head.weight', [vocab, width]);
  return list;
}

/** Writes a checkpoint; `filled: false` leaves its weights a hole in the file, which takes no room on the disk. */
function writeCheckpoint(directory, size, filled) {
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, 'config.json'), JSON.stringify(configOf(size)));
  const header = {};
  let offset = 0;
  const tensors = tensorsOf(size);
  for (const { name, shape } of tensors) {
    const bytes = 4 * shape.reduce((product, n) => product * n, 1);
    header[name] = { dtype: 'F32', shape, data_offsets: [offset, offset + bytes] };
    offset += bytes;
  }
  let text = JSON.stringify(header);
  text += ' '.repeat((8 - (text.length % 8)) % 8);
  const file = openSync(join(directory, 'model.safetensors'), 'w');
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  writeSync(file, length);
  writeSync(file, text);
  if (filled) {
    for (const { shape, std } of tensors) {
      const floats = new Float32Array(shape.reduce((product, n) => product * n, 1));
      if (std === 0) floats.fill(1);
      else fillNormal(floats, std);
      writeSync(file, Buffer.from(floats.buffer));
    }
  } else ftruncateSync(file, 8 + text.length + offset);
  closeSync(file);
}

/** Panels of the small pack, by what they are panels of. */
class PanelPool {
  #byKind = new Map();

  add(kind, bytes, rows) {
    const count = Math.ceil(rows / PANEL);
    const stride = bytes.length / count;
    const panels = this.#byKind.get(kind) ?? [];
    for (let i = 0; i < count; i++) panels.push(bytes.subarray(i * stride, (i + 1) * stride));
    this.#byKind.set(kind, panels);
  }

  /** A matrix of `rows` outputs. */
  matrix(kind, rows) {
    const panels = this.#byKind.get(kind);
    return Array.from(
      { length: Math.ceil(rows / PANEL) },
      () => panels[Math.floor(random() * panels.length)],
    );
  }
}

/** What a dense matrix's panels may stand for: those of its name in any layer. */
const kindOf = (name) => name.split('.').at(-1);

function fillPool(pack, layout) {
  const pool = new PanelPool();
  const dense = readFileSync(join(pack, layout.dense.file));
  for (const tensor of layout.dense.tensors) {
    if (tensor.layout !== 'panels') continue;
    pool.add(
      kindOf(tensor.name),
      dense.subarray(tensor.offset, tensor.offset + tensor.bytes),
      tensor.shape[0],
    );
  }
  const experts = readFileSync(join(pack, layout.experts.file));
  const { block_bytes, matrices, layers, experts_per_layer } = layout.experts;
  for (let id = 0; id < layers.length * experts_per_layer; id++) {
    matrices.forEach(({ name, shape, offset }, i) => {
      const used = panelBytes(matrices, i, block_bytes, layout.experts);
      const begin = id * block_bytes + offset;
      pool.add(`expert ${name}`, experts.subarray(begin, begin + used), shape[0]);
    });
  }
  return pool;
}

/** Bytes of an expert's matrix without the padding behind it; matrices of equal inputs have panels of equal bytes. */
function panelBytes(matrices, i, blockBytes, { dtype, group }) {
  const [n, k] = matrices[i].shape;
  const perPanel = {
    f32: () => k * 128,
    bf16: () => Math.ceil(k / 2) * 128,
    int8: () => Math.ceil(k / 4) * 128 + 256,
    int4: () => Math.ceil(k / group) * 64 + Math.ceil(k / 8) * 128,
  }[dtype]();
  const bytes = Math.ceil(n / PANEL) * perPanel;
  const room = (matrices[i + 1]?.offset ?? blockBytes) - matrices[i].offset;
  if (bytes > room) throw new Error(`${matrices[i].name}: ${bytes} bytes do not fit ${room}`);
  return bytes;
}

class PackFileWriter {
  #file;
  #at = 0;

  constructor(path) {
    this.#file = openSync(path, 'w');
  }

  write(bytes) {
    writeSync(this.#file, bytes);
    this.#at += bytes.length;
  }

  padTo(offset) {
    if (offset > this.#at) this.write(Buffer.alloc(offset - this.#at));
  }

  close() {
    closeSync(this.#file);
  }
}

function writeDense(directory, layout, pool) {
  const file = new PackFileWriter(join(directory, layout.dense.file));
  for (const { name, offset, bytes, shape, layout: form } of layout.dense.tensors) {
    file.padTo(offset);
    const floats = new Float32Array(bytes / 4);
    if (kindOf(name) === 'router') {
      fillNormal(floats, WEIGHT_STD);
      file.write(Buffer.from(floats.buffer));
    } else if (form === 'panels') {
      for (const panel of pool.matrix(kindOf(name), shape[0])) file.write(panel);
    } else file.write(Buffer.from(floats.fill(1).buffer));
  }
  file.padTo(layout.dense.bytes);
  file.close();
}

function writeExperts(directory, { experts }, pool) {
  const file = new PackFileWriter(join(directory, experts.file));
  const total = experts.layers.length * experts.experts_per_layer;
  for (let id = 0; id < total; id++) {
    const begin = id * experts.block_bytes;
    for (const { name, shape, offset } of experts.matrices) {
      file.padTo(begin + offset);
      file.write(Buffer.concat(pool.matrix(`expert ${name}`, shape[0])));
    }
    file.padTo(begin + experts.block_bytes);
    if (id % 64 === 63 || id + 1 === total) process.stderr.write(`experts ${id + 1} of ${total}\n`);
  }
  file.close();
}

const format = (dtype) => (dtype === 'int4' ? { dtype, group: 32 } : { dtype });
const large = { layers: Number(values.layers), experts: Number(values.count), vocab: Number(values.vocab) };
const small = { layers: 1, experts: 8, vocab: 2048 };
// Beside the pack: a hole of the checkpoint's size must fit its file system's largest file.
mkdirSync(dirname(out), { recursive: true });
const work = mkdtempSync(join(tmpdir(), 'sida-olmoe-'));
try {
  writeCheckpoint(join(work, 'small'), small, true);
  const formats = { experts: format(values.experts), dense: format(values.dense) };
  const { pack } = await convertCheckpoint({
    model: join(work, 'small'),
    out: join(work, 'small-pack'),
    ...formats,
  });
  const addon = loadAddon();
  const layoutOf = (checkpoint, directory) => {
    mkdirSync(directory, { recursive: true });
    const writer = new addon.PackWriter({ checkpoint, out: directory, ...formats });
    const { layout } = writer;
    writer.close();
    return layout;
  };
  const pool = fillPool(pack, layoutOf(join(work, 'small'), join(work, 'unused')));
  writeCheckpoint(join(work, 'large'), large, false);
  const layout = layoutOf(join(work, 'large'), out);
  writeDense(out, layout, pool);
  writeExperts(out, layout, pool);
  writeFileSync(join(out, 'config.json'), JSON.stringify(configOf(large)));
  const files = [];
  for (const name of ['dense.sida', 'experts.sida', 'config.json'])
    files.push(await hashFile(out, name, () => {}));
  const source = { name: 'random OLMoE', identity: `random ${values.seed} ${JSON.stringify(large)}` };
  await writeManifest(out, { format: 'sida-pack', version: PACK_VERSION, source, ...layout, files });
} finally {
  rmSync(work, { recursive: true, force: true });
}
