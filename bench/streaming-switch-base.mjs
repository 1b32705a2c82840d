// What does loading only what is needed save? A Switch-base-128 shape (bf16, random weights), a fifth of its experts in
// memory, SST-2 sentences: whole-layer streaming, fetching on demand, and prefetching by tables, on one disk.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { loadAddon } from '../dist/native/addon.js';
import { commandText, LAYER_STREAMING, measureSystems } from './predictor-systems.mjs';
import { SwitchBaseFixture, TEMPLATE } from './switch-base-fixture.mjs';

const HELP = `node bench/streaming-switch-base.mjs --train-data sst2/train.jsonl [options]
  --train-sentences 400 --minutes 0.6   what the predictor learns from, and for how long
  --sentences 8         of batch 1
  --batch-sentences 48  of batches of 16
  --batches 1,16        sentences of a batch
  --systems LIST        of: layer streaming; none, lru; none, lfu; lstm; graph+lstm; replay (separated by ;)
  --share 0.2           experts that fit
  --rounds 1 --threads N
  --experts 128 --layers 12 --decoder-layers 2   shape (d 768, ff 3072, vocabulary 8000); every second layer has experts
  --dtype auto          of the pack's experts; auto is bf16
  --dir DIR             what is made there (17 GB for a while, 8.5 GB stay) is used again
  --prepare             make model, traces and predictor in --dir, measure nothing
  --quick               4 + 2 layers of 8 experts: shows that it runs; the result goes to build/
The result is bench/results/streaming-switch-base.json.`;

const { values } = parseArgs({
  options: {
    help: { type: 'boolean', default: false },
    quick: { type: 'boolean', default: false },
    prepare: { type: 'boolean', default: false },
    'train-data': { type: 'string' },
    'train-sentences': { type: 'string', default: '400' },
    minutes: { type: 'string' },
    sentences: { type: 'string', default: '8' },
    'batch-sentences': { type: 'string', default: '48' },
    batches: { type: 'string', default: '1,16' },
    systems: { type: 'string', default: 'layer streaming; none, lru; none, lfu; lstm; graph+lstm; replay' },
    share: { type: 'string' },
    rounds: { type: 'string', default: '1' },
    threads: { type: 'string', default: String(availableParallelism()) },
    experts: { type: 'string' },
    layers: { type: 'string' },
    'decoder-layers': { type: 'string', default: '2' },
    dtype: { type: 'string', default: 'auto' },
    dir: { type: 'string' },
  },
});
if (values.help) {
  console.log(HELP);
  process.exit(0);
}
if (values['train-data'] === undefined)
  throw new Error('--train-data F.jsonl is required: rows with a "text"');
const { quick } = values;
const experts = values.experts ?? (quick ? '8' : '128');
const layers = values.layers ?? (quick ? '4' : '12');
// The quick shape has three MoE layers: a fifth of its experts is less than one layer.
const share = Number(values.share ?? (quick ? 0.5 : 0.2));
const BATCH_TOKENS = '1024';
const dir = values.dir ?? mkdtempSync(join(tmpdir(), 'sida-bench-'));
mkdirSync(dir, { recursive: true });
const { threads } = values;
const fixture = new SwitchBaseFixture({
  dir,
  shape: { experts, layers, 'decoder-layers': values['decoder-layers'], 'd-model': 768, 'd-ff': 3072 },
  experts: values.dtype,
  trainData: values['train-data'],
  trainSentences: Number(values['train-sentences']),
  minutes: values.minutes ?? (quick ? '0.05' : '0.6'),
  threads,
  batchTokens: BATCH_TOKENS,
  again: values.dir !== undefined,
});

const split = (text, by) => text.split(by).map((part) => part.trim());

function setups() {
  const systems = split(values.systems, ';');
  // The largest batches first: their resident run is the reference of all sentences.
  const sizes = split(values.batches, ',').map(Number).sort((a, b) => b - a); // biome-ignore format: one line
  return sizes.flatMap((batch) => {
    const sentences = Number(batch > 1 ? values['batch-sentences'] : values.sentences);
    const common = { batch, sentences, lookahead: 4, link: 'disk' };
    return [
      { ...common, system: 'resident', share: 1, warmUp: sentences },
      ...systems.map((system) => {
        const warmUp = batch * (system === LAYER_STREAMING ? 1 : Math.max(1, Math.ceil(8 / batch)));
        return { ...common, system, share, warmUp };
      }),
    ];
  });
}

try {
  const held = await fixture.make(Math.max(Number(values.sentences), Number(values['batch-sentences'])));
  if (!values.prepare) {
    const limits = { maxBatchTokens: Number(BATCH_TOKENS), kvTokens: 1536, threads: Number(threads) };
    const pack = fixture.at('pack');
    const result = await measureSystems({
      name: 'streaming-switch-base',
      quick,
      about: {
        question: 'What does loading only what is needed save, next to streaming whole layers?',
        command: commandText('streaming-switch-base.mjs'),
        weights: 'random',
        shape: `Switch-base-${experts}, ${layers} + ${values['decoder-layers']} layers, d 768, ff 3072, ${values.dtype === 'auto' ? 'bf16' : values.dtype}, vocabulary 8000`,
        threads: Number(threads),
        seed: 'weights and training have seeds of their own, 1 where none is given',
        preparationSeconds: fixture.seconds,
      },
      setups: setups(),
      rounds: Number(values.rounds),
      work: {
        pack,
        slotBytes: loadAddon().planMemory({ pack }, limits).slot,
        texts: held.map((line) => TEMPLATE.replace('{text}', JSON.parse(line).text)),
        labels: ['negative', 'positive'],
        predictor: fixture.at('predictor'),
        trace: fixture.at('trace-validation'),
        engine: { threads, maxBatchTokens: BATCH_TOKENS },
      },
    });
    process.exitCode = result.differing === 0 ? 0 : 1;
  }
} finally {
  if (values.dir === undefined) rmSync(dir, { recursive: true, force: true });
}
