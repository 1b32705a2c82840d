// What is a prediction worth where an expert is megabytes? A Switch-base-64 shape (bf16) with random weights: too big
// to train here, so its routing is that of random routers, and only ratios of time and bytes mean anything.
//   node bench/predictors-switch-base.mjs --train-data sst2/train.jsonl [--train-sentences 2000] [--minutes 2]
//     [--sentences 32] [--rounds 1] [--threads N] [--experts 64] [--layers 12] [--d-model 768] [--d-ff 3072]
//     [--dir DIR] [--keep]
// Makes checkpoint and pack (16 GB on disk for a while), traces its routing on SST-2 sentences, trains a predictor on
// that, then runs the systems. With --dir what is there already is used again.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { loadAddon } from '../dist/native/addon.js';
import { commandText, measureSystems } from './predictor-systems.mjs';
import { SwitchBaseFixture, TEMPLATE } from './switch-base-fixture.mjs';

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
const { threads } = values;
const BATCH_TOKENS = '256';

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

const shape = Object.fromEntries(
  ['experts', 'layers', 'd-model', 'd-ff'].map((name) => [name, values[name]]),
);
const fixture = new SwitchBaseFixture({
  dir,
  shape,
  trainData: values['train-data'],
  trainSentences: Number(values['train-sentences']),
  minutes: values.minutes,
  threads,
  batchTokens: BATCH_TOKENS,
});

try {
  const sentences = Number(values.sentences);
  const held = await fixture.make(sentences);
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
      preparationSeconds: fixture.seconds,
    },
    setups: setups(sentences),
    rounds: Number(values.rounds),
    work: {
      pack: fixture.at('pack'),
      slotBytes: loadAddon().planMemory({ pack: fixture.at('pack') }, limits).slot,
      texts: held.map((line) => TEMPLATE.replace('{text}', JSON.parse(line).text)),
      labels: ['negative', 'positive'],
      predictor: fixture.at('predictor'),
      trace: fixture.at('trace-validation'),
      hotTrace: fixture.at('trace-train'),
      engine: { threads, maxBatchTokens: BATCH_TOKENS },
    },
  });
  process.exitCode = result.differing === 0 ? 0 : 1;
} finally {
  if (!values.keep && values.dir === undefined) rmSync(dir, { recursive: true, force: true });
}
