// Which parts of the predictor and of its loss pay? One variant after the other is trained on the same traces, for the
// same epochs or until the rule ends it, and measured on the same held-out traces: hits, α error, milliseconds of a
// table, parameters, steps and minutes.
//   node bench/scripts/predictor/ablation.mjs --trace DIR --held-out DIR [--epochs N] [--max-minutes 0] [--threads 2]
//     [--only 'one layer'] [--state DIR]
// The traces must hold every expert (`sida trace --top` with as many): KD and T = all learn from them. Without --epochs
// each variant trains until its held-out loss improves by less than 0.1 % over three epochs, at three rates. With
// --epochs all take the same steps, along a cosine. Each row is written when it is done. A second start goes on with
// the rows that are missing, and inside an unfinished row where --state keeps the training.
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { parseArgs } from 'node:util';
import { hitNames } from '../../../dist/predictor/hit-ranks.js';
import { readPredictorManifest } from '../../../dist/predictor/training/manifest.js';
import { sida } from '../../dist/support/processes.js';
import { scriptProvenance } from '../../dist/support/provenance.js';
import { resultFile, writeResult } from '../../dist/support/script-result.js';
import { TOKEN, VARIANTS } from './ablation-variants.mjs';
import { heldOutOf, measureFunction } from './measure-function.mjs';

const { values } = parseArgs({
  options: {
    trace: { type: 'string', multiple: true },
    'held-out': { type: 'string', multiple: true },
    epochs: { type: 'string' },
    'max-minutes': { type: 'string', default: '0' },
    threads: { type: 'string', default: '2' },
    seed: { type: 'string', default: '1' },
    only: { type: 'string' },
    state: { type: 'string' },
    quick: { type: 'boolean', default: false },
  },
});
if (!values.trace || !values['held-out']) throw new Error('--trace DIR and --held-out DIR are required');

const heldOut = await heldOutOf(values['held-out']);
const { meta } = heldOut;
const NAME = `ablation-${meta.model.name}`;
const FILE = resultFile(NAME, values.quick);
const conditions = {
  traces: values.trace.map((path) => basename(path)),
  heldOut: values['held-out'].map((path) => basename(path)),
  epochs: values.epochs === undefined ? null : Number(values.epochs),
  maxMinutes: Number(values['max-minutes']),
  threads: Number(values.threads),
  seed: Number(values.seed),
};
const earlier = existsSync(FILE) ? JSON.parse(readFileSync(FILE, 'utf8')) : undefined;
const same = JSON.stringify(earlier?.conditions) === JSON.stringify(conditions);
if (earlier !== undefined && !same) throw new Error(`${FILE} was made under other conditions; move it away`);
const rows = earlier?.rows ?? [];

/** How long every variant trains. Batches are of the same sequences in all of them, so steps compare. */
const LENGTH =
  values.epochs === undefined
    ? ['--schedule', 'plateau', '--until', '0.1', '--until-epochs', '3', '--epochs', '1000']
    : ['--schedule', 'cosine', '--until', '0', '--epochs', values.epochs];
const SAME = ['--batch-tokens', '0', '--patience', '0', '--max-minutes', values['max-minutes']];

function write(row) {
  const { commit, machine, isa } = scriptProvenance();
  rows.push({ ...row, commit, machine, isa });
  const result = {
    question: 'Which parts of the predictor and of its loss pay, on held-out text?',
    ...scriptProvenance(),
    model: meta.model.name,
    names: hitNames(meta.topK),
    heldOut: { inputs: heldOut.inputs, tokens: heldOut.tokens },
    conditions,
    rows,
  };
  writeResult(NAME, result, values.quick);
  const percent = (share) => `${(100 * share).toFixed(1)} %`;
  const { name, first, last, tableMs } = row;
  console.error(`${name}: ${percent(first)} / ${percent(last)}, ${tableMs.toPrecision(2)} ms a table`);
}

/** Trains a variant; returns its directory, and the steps and minutes of all its stacks. */
async function train(dir, { name, network, flags }) {
  const out = join(dir, name.replaceAll(/[^a-z0-9λ]+/gi, '-'));
  mkdirSync(dir, { recursive: true });
  const data = [...values.trace, '--held-out', ...values['held-out'], '--out', out, '--network', network];
  const machine = ['--threads', values.threads, '--seed', values.seed, '--json'];
  // The variant's flags are last, since one of them may be another seed.
  await sida(['train', ...data, ...LENGTH, ...SAME, ...machine, ...flags], { showErrors: true });
  const { training, options } = (await readPredictorManifest(out)).networks[network];
  const log = readFileSync(join(out, network, 'training.jsonl'), 'utf8')
    .trimEnd()
    .split('\n');
  const seconds = Object.fromEntries(
    log.map((line) => JSON.parse(line)).map((evaluation) => [evaluation.network, evaluation.seconds]),
  );
  const minutes = Object.values(seconds).reduce((sum, own) => sum + own, 0) / 60;
  const steps = training.reduce((sum, own) => sum + own.steps, 0);
  return { out, made: { network, flags: flags.join(' '), options, training, steps, minutes } };
}

const dir = values.state ?? mkdtempSync(join(tmpdir(), 'sida-bench-'));
try {
  const wanted = VARIANTS.filter(
    ({ name, only }) => (values.only ?? name) === name && (only === undefined || only(meta)),
  );
  const lacks = (name) => !rows.some((row) => row.name === name);
  for (const variant of wanted) {
    const { name, network } = variant;
    if (!lacks(name)) continue;
    console.error(name);
    const { out, made } = await train(dir, variant);
    write({ name, ...made, ...(await measureFunction(out, network, heldOut)) });
    if (lacks(TOKEN)) {
      write({ name: TOKEN, network: TOKEN, flags: '', ...(await measureFunction(out, TOKEN, heldOut)) });
    }
    if (values.state === undefined) rmSync(out, { recursive: true, force: true });
  }
} finally {
  if (values.state === undefined) rmSync(dir, { recursive: true, force: true });
}
