// Where does the time of a pass go, and what do transfers hide behind? A Switch-base-8 shape (bf16, random weights) is
// served at a budget that holds part of its experts and recorded by --profile: without a predictor, with one learnt on
// other sentences, and with tables that are right (the traced routing of what is served).
//   node bench/scripts/profile/profile-overlap.mjs [--budget 40%] [--sentences 48] [--clients 4] [--train-sentences
//     200] [--minutes 1]
//     [--dir DIR] [--prepare] [--keep]
// Makes checkpoint and pack (4 GB on disk for a while); with --dir what is there already is used again, --prepare only
// makes it. Writes the summaries to bench/results/profile-overlap.json and the picture, of the tables that are right,
// to docs/pictures/overlap.svg.
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { convertCheckpoint } from '../../../dist/checkpoint/converter.js';
import { makeSwitchCheckpoint, sida } from '../../dist/support/processes.js';
import { scriptProvenance } from '../../dist/support/provenance.js';
import { writeResult } from '../../dist/support/script-result.js';
import { serveRecorded, TEMPLATE } from './serve-recorded.mjs';

const { values } = parseArgs({
  options: {
    budget: { type: 'string', default: '40%' },
    sentences: { type: 'string', default: '48' },
    clients: { type: 'string', default: '4' },
    'train-sentences': { type: 'string', default: '200' },
    minutes: { type: 'string', default: '1' },
    dir: { type: 'string' },
    prepare: { type: 'boolean', default: false },
    keep: { type: 'boolean', default: false },
  },
});
const PICTURE = 'docs/pictures/overlap.svg';
const dir = values.dir ?? mkdtempSync(join(tmpdir(), 'sida-bench-'));
mkdirSync(dir, { recursive: true });
const at = (name) => join(dir, name);

const served = Number(values.sentences);
const lines = readFileSync('test/data/sst2-validation.jsonl', 'utf8').trim().split('\n');
const sentences = lines.slice(0, served).map((line) => JSON.parse(line).text);

async function makePack() {
  const shape = ['--experts', '8', '--dtype', 'bf16', '--vocab', '8000'];
  const model = at('switch-base-8');
  await makeSwitchCheckpoint(model, shape);
  copyFileSync('models/switch-mini/tokenizer.json', join(model, 'tokenizer.json'));
  await convertCheckpoint({ model, out: at('pack'), experts: 'auto', dense: 'auto' });
  rmSync(model, { recursive: true });
}

async function trace(name, rows) {
  writeFileSync(at(`${name}.jsonl`), rows.join('\n'));
  // biome-ignore format: a command line
  await sida(['trace', at('pack'), '--data', at(`${name}.jsonl`), '--template', TEMPLATE, '--out', at(`trace-${name}`),
    '--max-new-tokens', '1', '--memory-budget', '100%', '--max-batch-tokens', '256']);
}

/** Learnt from other sentences than those that are served. */
async function makePredictors() {
  await trace('served', lines.slice(0, served));
  await trace('train', lines.slice(served, served + Number(values['train-sentences'])));
  for (const network of ['lstm', 'attention']) {
    const out = ['--out', at('predictor'), '--network', network, '--max-minutes', values.minutes];
    await sida(['train', at('trace-train'), ...out]);
  }
}

/** Tables alone are compared. */
const STILL = ['--look-ahead-layers', '0'];
const SYSTEMS = {
  none: ['--predictor', 'none'],
  lstm: ['--predictor', at('predictor'), '--hash-function', 'lstm', '--governor', 'off', ...STILL],
  attention: ['--predictor', at('predictor'), '--hash-function', 'attention', '--governor', 'off', ...STILL],
  replay: ['--predictor', at('trace-served'), '--hash-function', 'replay', ...STILL],
};

try {
  if (!existsSync(at('pack/manifest.json'))) await makePack();
  if (!existsSync(at('predictor'))) await makePredictors();
  if (!values.prepare) await measure();
} finally {
  if (!values.keep && values.dir === undefined) rmSync(dir, { recursive: true, force: true });
}

async function measure() {
  const summaries = {};
  for (const name of Object.keys(SYSTEMS)) {
    const profile = at(`profile-${name}.json`);
    const flags = ['--model', at('pack'), ...SYSTEMS[name], '--memory-budget', values.budget];
    await serveRecorded({ flags, sentences, clients: Number(values.clients), profile });
    summaries[name] = JSON.parse(await sida(['profile', profile, '--json']));
  }
  mkdirSync('docs/pictures', { recursive: true });
  console.log(await sida(['profile', at('profile-replay.json'), '--svg', PICTURE]));
  const result = {
    question: 'Where does the time of a pass go, and what do transfers hide behind?',
    ...scriptProvenance(),
    weights: 'random',
    summaries,
  };
  writeResult('profile-overlap', result);
}
