// Writes a copy of a model whose experts are as large as those of a real model: their feed-forward width is raised with
// zeros. Routing and answers stay the same bits, and transfers cost what real ones cost.
import {
  closeSync,
  cpSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { formatBytes, parseBytes } from '../../dist/text/bytes.js';
import { optionsOf } from '../dist/support/script.js';

const HELP = `node bench/scripts/pad-experts.mjs [--model DIR] [--out DIR] (--ff N | --expert-bytes SIZE)
Copies a checkpoint of switch_transformers or olmoe (one model.safetensors) with wider experts. In Switch Transformers
plain layers have the width of the experts, so both grow. Tokenizer, sida.json and predictor are copied.
  --ff N               feed-forward width of the copy
  --expert-bytes SIZE  in place of --ff: the least size of an expert in the checkpoint's element type, like 19MB
The zeros of the checkpoint are holes; those of a pack made from it take their room.
  node bench/scripts/pad-experts.mjs --model models/switch-mini --out build/switch-padded --expert-bytes 19MB
  sida convert build/switch-padded --out build/switch-padded.pack`;

const { model, out, ff, 'expert-bytes': bytes } = optionsOf(HELP);
if (!model || !out || (ff === undefined) === (bytes === undefined)) {
  throw new Error('expected --model DIR, --out DIR, and one of --ff N and --expert-bytes SIZE');
}

/** By `model_type`: the config's width, the matrices (ff, d) that get rows, and those (d, ff) that get columns. */
const FAMILIES = {
  switch_transformers: {
    width: 'd_ff',
    model: 'd_model',
    rows: /\.mlp\.(?:experts\.expert_\d+\.)?wi\.weight$/,
    columns: /\.mlp\.(?:experts\.expert_\d+\.)?wo\.weight$/,
    matrices: 2,
  },
  olmoe: {
    width: 'intermediate_size',
    model: 'hidden_size',
    rows: /\.mlp\.experts\.\d+\.(?:gate|up)_proj\.weight$/,
    columns: /\.mlp\.experts\.\d+\.down_proj\.weight$/,
    matrices: 3,
  },
};
const ELEMENT_BYTES = { F32: 4, F16: 2, BF16: 2 };
/** Widths found from bytes are whole panels of the engine's matrices. */
const WIDTH_STEP = 32;

const config = JSON.parse(readFileSync(join(model, 'config.json'), 'utf8'));
const family = FAMILIES[config.model_type];
if (family === undefined) {
  throw new Error(`model_type is ${config.model_type}, expected one of ${Object.keys(FAMILIES).join(', ')}`);
}
const { [family.width]: before, [family.model]: d } = config;
const source = readFileSync(join(model, 'model.safetensors'));
const headerEnd = 8 + Number(source.readBigUInt64LE());
const { __metadata__, ...entries } = JSON.parse(source.subarray(8, headerEnd).toString());
const tensors = Object.entries(entries).sort(([, a], [, b]) => a.data_offsets[0] - b.data_offsets[0]);

const anyExpert = tensors.find(([name]) => /\.experts\./.test(name) && family.columns.test(name));
if (anyExpert === undefined) throw new Error('the model has no expert that can be padded');
const columnBytes = family.matrices * d * ELEMENT_BYTES[anyExpert[1].dtype];
const width = ff === undefined ? Math.ceil(parseBytes(bytes) / columnBytes / WIDTH_STEP) * WIDTH_STEP : Number(ff);
if (!(Number.isInteger(width) && width > before)) {
  throw new Error(`a width of ${width}: expected a whole number above the model's ${before}`);
}

/** The new shape, and the rows to copy with the bytes of one before and after. */
function padded(name, { dtype, shape, data_offsets: [begin, end] }) {
  const size = ELEMENT_BYTES[dtype];
  // New rows follow the old ones. New columns end every row.
  if (family.rows.test(name)) return { shape: [width, d], rows: 1, from: end - begin, to: width * d * size };
  if (family.columns.test(name)) return { shape: [d, width], rows: d, from: before * size, to: width * size };
  return { shape, rows: 1, from: end - begin, to: end - begin };
}

const copies = tensors.map(([name, entry]) => ({ name, entry, ...padded(name, entry) }));
const header = { ...(__metadata__ && { __metadata__ }) };
let end = 0;
for (const { name, entry, shape, rows, to } of copies) {
  header[name] = { dtype: entry.dtype, shape, data_offsets: [end, end + rows * to] };
  end += rows * to;
}
const json = Buffer.from(JSON.stringify(header));
const head = Buffer.alloc(8 + Math.ceil(json.length / 8) * 8, ' ');
head.writeBigUInt64LE(BigInt(head.length - 8));
json.copy(head, 8);

mkdirSync(out, { recursive: true });
const file = openSync(join(out, 'model.safetensors'), 'w');
const write = (data, position) => {
  for (let at = 0; at < data.length; ) at += writeSync(file, data, at, data.length - at, position + at);
};
write(head, 0);
for (const { name, entry, rows, from, to } of copies) {
  const begin = headerEnd + entry.data_offsets[0];
  const target = head.length + header[name].data_offsets[0];
  for (let row = 0; row < rows; row++)
    write(source.subarray(begin + row * from, begin + (row + 1) * from), target + row * to);
}
ftruncateSync(file, head.length + end);
closeSync(file);
for (const name of readdirSync(model)) {
  if (/^(config\.json|.*\.safetensors)$/.test(name)) continue;
  cpSync(join(model, name), join(out, name), { recursive: true, dereference: true });
}
// Last: without it, what an interrupted run leaves is no model.
writeFileSync(join(out, 'config.json'), `${JSON.stringify({ ...config, [family.width]: width }, null, 2)}\n`);
console.log(`${out}: ${family.width} ${before} → ${width}, an expert ${formatBytes(columnBytes * width)}`);
