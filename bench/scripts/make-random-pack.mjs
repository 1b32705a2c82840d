// Writes a pack of any family's shape with random weights, straight from its config: no checkpoint of its size is made,
// and at most one matrix is in memory. For experiments whose model is too big to ship.
// Matrices that write to the residual stream are divided by the square root of twice the layers, as models are
// initialized: activations then stay finite at any depth, and a router still sees the token beside its context. The
// scale of the embeddings decides how much of it, and so how alike the experts of neighbouring tokens are.
import { createHash } from 'node:crypto';
import { closeSync, mkdirSync, openSync, readFileSync, writeSync } from 'node:fs';
import { basename, join } from 'node:path';
import { PACK_VERSION, writeManifest } from '../../dist/checkpoint/manifest.js';
import { loadAddon } from '../../dist/native/addon.js';
import { optionsOf } from '../dist/support/script.js';
import { RandomWords, randomFloats, randomMatrix } from './random-panels.mjs';

const HELP = `node bench/scripts/make-random-pack.mjs [--config FILE] [--out DIR] [--experts int4] [--dense int8]
  [--group 32] [--seed 1] [--embedding 1] [--layers N]
bench/scripts/shapes/ has configs. Weights are uniform, of bf16 and bf16c normal, with the standard
deviation 0.02; norms are 1, biases 0. --layers takes fewer layers than the config has.`;

const values = optionsOf(HELP);
if (values.config === undefined || values.out === undefined)
  throw new Error('--config FILE and --out DIR are required');
const WEIGHT_STD = 0.02;
const random = new RandomWords(values.seed);
const format = (dtype) => (dtype === 'int4' ? { dtype, group: values.group } : { dtype });

/** Writes in order and hashes what it writes; gaps are zeros. */
class PackFile {
  #name;
  #file;
  #hash = createHash('sha256');
  #at = 0;

  constructor(directory, name) {
    this.#name = name;
    this.#file = openSync(join(directory, name), 'w');
  }

  write(offset, bytes) {
    if (offset > this.#at) this.#append(new Uint8Array(offset - this.#at));
    this.#append(bytes);
  }

  /** The file's entry in the manifest. */
  end(bytes) {
    this.write(bytes, new Uint8Array());
    closeSync(this.#file);
    return { name: this.#name, bytes, sha256: this.#hash.digest('hex') };
  }

  #append(bytes) {
    for (let at = 0; at < bytes.length; ) at += writeSync(this.#file, bytes, at);
    this.#hash.update(bytes);
    this.#at += bytes.length;
  }
}

const bytesOf = (floats) => new Uint8Array(floats.buffer);
const layersOf = ({ dense }) => new Set(dense.tensors.map(({ name }) => /^\w+\.\d+/.exec(name)?.[0])).size - 1;

function writeDense(out, layout) {
  const file = new PackFile(out, layout.dense.file);
  const residual = WEIGHT_STD / Math.sqrt(2 * layersOf(layout));
  const std = { embedding: values.embedding, output: residual, down: residual, shared_down: residual };
  for (const { name, dtype, layout: form, shape, offset } of layout.dense.tensors) {
    const kind = name.split('.').at(-1);
    const count = shape.reduce((product, size) => product * size, 1);
    if (form === 'panels') {
      file.write(offset, randomMatrix(random, shape, { dtype }, std[kind] ?? WEIGHT_STD));
    } else if (kind.endsWith('_norm')) file.write(offset, bytesOf(new Float32Array(count).fill(1)));
    else file.write(offset, bytesOf(randomFloats(random, count, WEIGHT_STD)));
  }
  return file.end(layout.dense.bytes);
}

function writeExperts(out, layout) {
  const { experts } = layout;
  const file = new PackFile(out, experts.file);
  const each = experts.experts_per_layer;
  const total = Array.isArray(each) ? each.reduce((sum, count) => sum + count) : experts.layers.length * each;
  const residual = WEIGHT_STD / Math.sqrt(2 * layersOf(layout));
  for (let id = 0; id < total; id++) {
    for (const { name, shape, offset } of experts.matrices) {
      const std = name === 'down' ? residual : WEIGHT_STD;
      file.write(id * experts.block_bytes + offset, randomMatrix(random, shape, experts, std));
    }
    if (id % 256 === 255 || id + 1 === total) process.stderr.write(`experts ${id + 1} of ${total}\n`);
  }
  return file.end(total * experts.block_bytes);
}

const { out } = values;
mkdirSync(out, { recursive: true });
const config = new PackFile(out, 'config.json');
const full = readFileSync(values.config);
const text =
  values.layers === undefined
    ? full
    : Buffer.from(JSON.stringify({ ...JSON.parse(full), num_hidden_layers: values.layers }));
config.write(0, text);
const files = [config.end(text.length)];
const formats = { experts: format(values.experts), dense: format(values.dense) };
const layout = loadAddon().describePack({ config: out, ...formats });
files.push(writeDense(out, layout), writeExperts(out, layout));
const source = {
  name: `random ${basename(values.config, '.json')}`,
  weights: createHash('sha256').update(JSON.stringify(files)).digest('hex'),
};
await writeManifest(out, { format: 'sida-pack', version: PACK_VERSION, source, ...layout, files });
