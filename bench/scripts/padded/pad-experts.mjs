// Writes a copy of a model whose experts are as large as those of a real model: their feed-forward width is raised with
// zeros. Routing and answers stay the same bits, and transfers cost what real ones cost.
import { cpSync, existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { SidaError } from '../../../dist/errors.js';
import { formatBytes, parseBytes } from '../../../dist/text/bytes.js';
import { StepProgress } from '../../dist/support/step-progress.js';
import { readJson, readShards, writeShard, writtenIndex } from './checkpoint-shards.mjs';
import { anyExpert, checkWidth, expertBytes, familyOf, padTensors, widthForBytes } from './pad-tensors.mjs';

const HELP = `node bench/scripts/padded/pad-experts.mjs --model DIR --out DIR (--ff N | --expert-bytes SIZE)

Copies a checkpoint (config.json with safetensors, of switch_transformers or olmoe) with wider experts: zeros fill them
up. Answers and log-probabilities keep their bits. The tokenizer, sida.json and the predictor are copied.

  --model DIR          the checkpoint
  --out DIR            the copy: a directory that does not exist or is empty
  --ff N               feed-forward width of the copy
  --expert-bytes SIZE  in place of --ff: the least size of an expert in the checkpoint's element type, like 25MB

Examples:
  node bench/scripts/padded/pad-experts.mjs --model models/switch-mini --out build/switch-padded --expert-bytes 19MB
  node bench/scripts/padded/pad-experts.mjs --model models/olmoe-mini --out build/olmoe-padded --ff 10912
  sida convert build/switch-padded --out build/switch-padded.pack
`;
const CONFIG = 'config.json';
/** Weights in other forms, which the copy must not carry along unpadded. */
const WEIGHTS = /\.(?:safetensors|safetensors\.index\.json|bin|bin\.index\.json|pt|pth|h5|msgpack|gguf)$/;

const refuse = (message, param) => new SidaError({ code: 'invalid_request', message, param });

function readArguments() {
  const text = { type: 'string' };
  const options = { model: text, out: text, ff: text, 'expert-bytes': text, help: { type: 'boolean' } };
  let values;
  try {
    ({ values } = parseArgs({ options }));
  } catch (error) {
    throw refuse(error.message);
  }
  if (values.help) return undefined;
  const { model, out, ff, 'expert-bytes': bytes } = values;
  if (model === undefined || out === undefined) throw refuse('--model DIR and --out DIR are required');
  if ((ff === undefined) === (bytes === undefined))
    throw refuse('expected one of --ff N and --expert-bytes SIZE');
  if (ff !== undefined && !/^\d+$/.test(ff)) throw refuse(`--ff ${ff}: expected a whole number`, 'ff');
  const size = bytes && parseBytes(bytes);
  if (bytes !== undefined && !size)
    throw refuse(`--expert-bytes ${bytes}: expected a size like 25MB`, 'expert-bytes');
  if (!existsSync(join(model, CONFIG))) throw refuse(`${join(model, CONFIG)} does not exist`, 'model');
  if (existsSync(out) && readdirSync(out).length > 0) throw refuse(`${out} is not empty`, 'out');
  return { model, out, ff: ff && Number(ff), bytes: size };
}

function pad({ model, out, ff, bytes }) {
  const config = readJson(join(model, CONFIG));
  const family = familyOf(config);
  const { index, shards } = readShards(model);
  const tensors = shards.flatMap((shard) => shard.tensors);
  const matrix = anyExpert(family, tensors);
  const width = ff ?? widthForBytes(family, matrix, bytes);
  checkWidth(family, width, ff === undefined ? 'expert-bytes' : 'ff');
  const padded = shards.map((shard) => ({ ...shard, tensors: padTensors(family, shard.tensors, width) }));

  mkdirSync(out, { recursive: true });
  const progress = new StepProgress('tensors', tensors.length);
  for (const shard of padded) {
    writeShard(join(model, shard.name), join(out, shard.name), shard, () => progress.step(shard.name));
  }
  const all = padded.flatMap((shard) => shard.tensors);
  if (index !== undefined) {
    const { name, content } = writtenIndex(index, all);
    writeFileSync(join(out, name), JSON.stringify(content));
  }
  for (const name of readdirSync(model)) {
    if (name === CONFIG || WEIGHTS.test(name)) continue;
    // Files of a download are links into a cache.
    cpSync(join(model, name), join(out, name), { recursive: true, dereference: true });
  }
  // Last: without it, what an interrupted run leaves is no model.
  writeFileSync(join(out, CONFIG), `${JSON.stringify({ ...config, [family.width]: width }, null, 2)}\n`);
  const total = all.reduce((sum, { newBytes }) => sum + newBytes, 0);
  console.log(
    `${out}: ${family.width} ${family.ff} → ${width}, an expert ${formatBytes(expertBytes(family, matrix, width))}, weights ${formatBytes(total)}`,
  );
}

try {
  const found = readArguments();
  if (found === undefined) process.stdout.write(HELP);
  else pad(found);
} catch (error) {
  // A full disk and the like; anything else is a bug and shows where.
  if (!(error instanceof SidaError) && error.syscall === undefined) throw error;
  console.error(`error: ${error.message}`);
  process.exitCode = 2;
}
