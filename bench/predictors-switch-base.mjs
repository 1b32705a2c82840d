// What is a prediction worth where an expert is megabytes? A Switch-base-64 shape (bf16) with random weights: too big
// to train here, so its routing is that of random routers, and only ratios of time and bytes mean anything.
//   node bench/predictors-switch-base.mjs --train-data sst2/train.jsonl [--train-sentences 2000] [--minutes 2]
//     [--sentences 32] [--rounds 1] [--threads N] [--experts 64] [--layers 12] [--d-model 768] [--d-ff 3072]
//     [--dir DIR] [--keep]
// Makes checkpoint and pack (16 GB on disk for a while), traces its routing on SST-2 sentences, trains a predictor on
// that, then runs the systems. With --dir what is there already is used again.
import { execFileSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { convertCheckpoint } from '../dist/checkpoint/converter.js';
import { formatBytes } from '../dist/config/bytes.js';
import { loadAddon } from '../dist/native/addon.js';
import { commandText, measureSystems } from './predictor-systems.mjs';

const { values } = parseArgs({
  options: {
    'train-data': { type: 'string' },
    'train-sentences': { type: 'string', default: '2000' },
    minutes: { type: 'string', default: '2' },
    sentences: { type: 'string', default: '32' },
    rounds: { type: 'string', default: '1' },
    threads: { type: 'string', default: String(availableParallelism()) },
    experts: { type: 'string', default: '64' },
    layers: { type: 'string', default: '12' },
    'd-model': { type: 'string', default: '768' },
    'd-ff': { type: 'string', default: '3072' },
    dir: { type: 'string' },
    keep: { type: 'boolean', default: false },
  },
});
if (values['train-data'] === undefined)
  throw new Error('--train-data F.jsonl is required: rows with a "text"');
const dir = values.dir ?? mkdtempSync(join(tmpdir(), 'sida-bench-'));
mkdirSync(dir, { recursive: true });
const at = (name) => join(dir, name);
const { threads } = values;
const TEMPLATE = 'sst2 sentence: {text}';
const BATCH_TOKENS = '256';
const node = (...args) => execFileSync('node', args, { stdio: ['ignore', 'ignore', 'inherit'] });
const seconds = {};
async function step(name, work) {
  const begin = performance.now();
  await work();
  seconds[name] = (performance.now() - begin) / 1000;
  console.error(`${name}: ${seconds[name].toFixed(0)} s`);
}

function checkRoom() {
  const parameters = Number(values.experts) * Number(values.layers) * 2 * values['d-model'] * values['d-ff'];
  const needed = 2.2 * 2 * parameters;
  const { bavail, bsize } = statfsSync(dir);
  if (bavail * bsize < needed) {
    throw new Error(`${dir} has ${formatBytes(bavail * bsize)} free, ${formatBytes(needed)} are needed`);
  }
}

async function makePack() {
  const shape = ['experts', 'layers', 'd-model', 'd-ff'].flatMap((name) => [`--${name}`, values[name]]);
  const model = at('model');
  node('bench/make-switch-checkpoint.mjs', '--out', model, ...shape, '--dtype', 'bf16', '--vocab', '8000');
  copyFileSync('models/switch-mini/tokenizer.json', join(model, 'tokenizer.json'));
  await convertCheckpoint({ model, out: at('pack'), experts: 'auto', dense: 'auto' });
  rmSync(model, { recursive: true });
}

const rows = (file, count) => readFileSync(file, 'utf8').split('\n', count).filter(Boolean);

function trace(file, out) {
  node('dist/cli/main.js', 'trace', at('pack'), '--data', file, '--template', TEMPLATE, '--out', out,
    '--max-new-tokens', '1', '--memory-budget', '100%', '--max-batch-tokens', BATCH_TOKENS, '--threads', threads); // biome-ignore format: a command line
}

const WITHOUT = ['none, lru', 'none, fifo', 'none, lfu', 'none, lifo'];

/** At an eighth of the residency every system; elsewhere what the targets compare. */
function setups(sentences) {
  const disk = (share, lookahead, systems) =>
    systems.map((system) => ({ system, share, lookahead, link: 'disk', warmUp: 16 }));
  // Enough to bring all experts that are needed to host memory.
  const warmUp = sentences;
  const link = (systems) =>
    systems.map((system) => ({ system, share: 0.125, lookahead: 4, link: 'simulated link', warmUp }));
  const resident = { system: 'resident', share: 1, lookahead: 4, warmUp };
  return [
    { ...resident, link: 'disk' },
    ...disk(0.125, 4, [...WITHOUT, 'token', 'lstm', 'graph+lstm', 'replay', 'shuffled']),
    ...disk(0.125, 1, ['lstm', 'graph+lstm', 'replay']),
    ...disk(0.25, 4, ['none, lru', 'none, lfu', 'lstm', 'graph+lstm', 'replay']),
    { ...resident, link: 'simulated link' },
    ...link(['none, lru', 'none, lfu', 'lstm', 'graph+lstm', 'replay']),
  ];
}

try {
  const sentences = Number(values.sentences);
  if (!existsSync(at('pack/manifest.json'))) {
    checkRoom();
    await step('make the model', makePack);
  }
  writeFileSync(at('train.jsonl'), rows(values['train-data'], Number(values['train-sentences'])).join('\n'));
  const held = rows('test/data/sst2-validation.jsonl', sentences);
  writeFileSync(at('validation.jsonl'), held.join('\n'));
  await step('trace', () => {
    trace(at('train.jsonl'), at('trace-train'));
    trace(at('validation.jsonl'), at('trace-validation'));
  });
  await step('train', () => {
    node('dist/cli/main.js', 'train', at('trace-train'), '--out', at('predictor'), '--preset', 'recommended',
      '--max-minutes', values.minutes, '--threads', threads); // biome-ignore format: a command line
  });
  const limits = { maxBatchTokens: Number(BATCH_TOKENS), kvTokens: 384, threads: Number(threads) };
  const result = await measureSystems({
    name: 'predictors-switch-base',
    about: {
      question: 'What is a prediction worth where an expert is megabytes?',
      command: commandText('predictors-switch-base.mjs'),
      weights: 'random',
      shape: `Switch-base-${values.experts}, ${values.layers} + ${values.layers} layers, d ${values['d-model']}, ff ${values['d-ff']}, bf16, vocabulary 8000`,
      threads: Number(threads),
      seed: 'weights and training have seeds of their own, 1 where none is given',
      preparationSeconds: seconds,
    },
    setups: setups(sentences),
    rounds: Number(values.rounds),
    work: {
      pack: at('pack'),
      slotBytes: loadAddon().planMemory({ pack: at('pack') }, limits).slot,
      texts: held.map((line) => TEMPLATE.replace('{text}', JSON.parse(line).text)),
      labels: ['negative', 'positive'],
      predictor: at('predictor'),
      trace: at('trace-validation'),
      hotTrace: at('trace-train'),
      engine: { threads, maxBatchTokens: BATCH_TOKENS },
    },
  });
  process.exitCode = result.differing === 0 ? 0 : 1;
} finally {
  if (!values.keep && values.dir === undefined) rmSync(dir, { recursive: true, force: true });
}
