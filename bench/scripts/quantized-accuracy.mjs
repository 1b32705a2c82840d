// What do quantized weights cost in accuracy? Every element type of experts and of dense weights, on a task of a model
// of the repository, by the scoring of `sida eval`, all experts resident.
import { existsSync, rmSync, statSync, truncateSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { basename, join } from 'node:path';
import { convertCheckpoint } from '../../dist/checkpoint/converter.js';
import { readTasks } from '../../dist/checkpoint/tasks.js';
import { formatName } from '../../dist/checkpoint/weight-format.js';
import { readLabelled } from '../../dist/evaluation/labelled-data.js';
import { runExact } from '../../dist/evaluation/model-runner.js';
import { intervalOf } from '../../dist/evaluation/paired-difference.js';
import { corruptedSource, dataSource, readTextLines } from '../../dist/evaluation/sources.js';
import { openEngine } from '../../dist/inference/open-engine.js';
import { loadAddon } from '../../dist/native/addon.js';
import { scriptProvenance } from '../dist/support/provenance.js';
import { optionsOf, scratchDirectory, writeResult } from '../dist/support/script.js';
import { tokenizerOf } from '../dist/support/sst2.js';

const HELP = `node bench/scripts/quantized-accuracy.mjs [--model models/switch-mini] [--task sst2] [--data DIR] [--limit N]
node bench/scripts/quantized-accuracy.mjs --model models/switch-words --task category
DIR holds mrpc/test.jsonl, multirc/validation.jsonl and its passages for a model of these tasks, and wikitext2/test.txt
for perplexity by span corruption; N is their first lines only. The result is bench/results/quantized-accuracy-MODEL.json.`;

const values = optionsOf(HELP);
const { model: MODEL, task: TASK, limit } = values;
/** Inputs that come with the repository, by task. */
const BUNDLED = {
  sst2: 'test/data/sst2-validation.jsonl',
  category: 'models/switch-words/words/known.jsonl',
};
const limits = { maxBatchTokens: 2048, kvTokens: 4096, threads: availableParallelism() };
const f32 = { dtype: 'f32' };
const bf16 = { dtype: 'bf16' };
const int8 = { dtype: 'int8' };
const int4 = (group) => ({ dtype: 'int4', group });
/** The first is what the others are compared with. */
const EXPERTS = [bf16, int8, int4(32), int4(64), int4(128)];
const SETUPS = [
  { experts: f32, dense: f32 },
  ...EXPERTS.map((experts) => ({ experts, dense: bf16 })),
  ...EXPERTS.map((experts) => ({ experts, dense: int8 })),
  // What is left when experts say nothing: how much there is to lose.
  { experts: bf16, dense: bf16, control: 'experts of zeros' },
].flatMap((setup) => [setup, ...roundedActivations(setup).map((activations) => ({ ...setup, activations }))]);

/** What activations can be rounded to beside these weights. */
function roundedActivations({ experts, dense, control }) {
  if (['int8', 'int4'].includes(experts.dtype) || dense === int8) return ['int8'];
  return experts === bf16 && control === undefined ? ['bf16'] : [];
}

const addon = loadAddon();

const at = (...parts) => join(values.data ?? '', ...parts);

async function sources() {
  const tasks = readTasks(MODEL);
  if (BUNDLED[TASK] === undefined || tasks[TASK] === undefined) {
    const both = Object.keys(BUNDLED).filter((name) => tasks[name] !== undefined);
    throw new Error(`--task ${TASK}: expected one of ${both.join(', ') || 'no task'} for ${MODEL}`);
  }
  const files = {
    [TASK]: { file: BUNDLED[TASK] },
    ...(values.data !== undefined && {
      mrpc: { file: at('mrpc', 'test.jsonl') },
      multirc: {
        file: at('multirc', 'validation.jsonl'),
        joins: { passage: at('multirc', 'validation.passages.jsonl') },
      },
    }),
  };
  const { shape } = addon.inspectCheckpoint(MODEL);
  const tokenizer = tokenizerOf(MODEL, shape.vocabSize);
  const read = {};
  for (const [task, { file, joins = {} }] of Object.entries(files)) {
    if (tasks[task] === undefined) continue;
    if (!existsSync(file)) {
      console.error(`SKIPPED ${task}: no ${file}`);
      continue;
    }
    const { template, labels } = tasks[task];
    const first = task !== TASK && limit !== undefined && { limit };
    const lines = await readLabelled({ file, joins, template, labels, ...first });
    read[task] = dataSource(file, lines, { labels }, { shape, tokenizer, ...limits }).inputs;
  }
  const text = at('wikitext2', 'test.txt');
  if (values.data !== undefined && existsSync(text)) {
    const lines = await readTextLines(text, limit);
    read.wikitext2 = corruptedSource(text, lines, { shape, tokenizer, ...limits }).inputs;
  }
  return read;
}

/** The engine does not read hashes: a pack is checked where it is prepared. */
function silenceExperts(file) {
  const { size } = statSync(file);
  truncateSync(file, 0);
  truncateSync(file, size);
}

const best = (scores) => scores.indexOf(Math.max(...scores));

/** Of targets: how surprising they are. */
function perplexityOf(inputs, scores) {
  const tokens = inputs.flatMap(({ work }) => work.plan.inputs.flatMap(({ rows }) => rows)).length;
  const logprob = scores.reduce((sum, [own]) => sum + own, 0);
  return { inputs: inputs.length, perplexity: Math.exp(-logprob / tokens) };
}

/** Of labels: against the scores of the first setup. */
function compare(inputs, scores, reference) {
  const share = (holds) => inputs.filter((_, i) => holds(i)).length / inputs.length;
  return {
    inputs: inputs.length,
    accuracy: share((i) => best(scores[i]) === inputs[i].label),
    flipped: inputs.filter((_, i) => best(scores[i]) !== best(reference[i])).length,
    /** Right answers of the first setup less these, by input. */
    lost: intervalOf(
      inputs.map(({ label }, i) => Number(best(reference[i]) === label) - Number(best(scores[i]) === label)),
    ),
    largestDifference: scores
      .flatMap((own, i) => own.map((score, label) => Math.abs(score - reference[i][label])))
      .reduce((most, each) => Math.max(most, each), 0),
  };
}

const work = scratchDirectory();
const data = await sources();
const references = {};
const runs = [];
for (const { experts, dense, activations = 'f32', control } of SETUPS) {
  const name = `${formatName(experts)}, dense ${formatName(dense)}, activations ${activations}${control === undefined ? '' : `, ${control}`}`;
  const out = join(work, 'pack');
  await convertCheckpoint({ model: MODEL, out, experts, dense });
  if (control === 'experts of zeros') silenceExperts(join(out, 'experts.sida'));
  const engine = openEngine({ ...limits, activations, pack: out, memoryBudget: '100%', hostBudget: '0' });
  const score = (input) => runExact(engine, input).scores;
  const tasks = {};
  for (const [task, inputs] of Object.entries(data)) {
    const scores = inputs.map(score);
    references[task] ??= scores;
    const labelled = inputs[0].label !== undefined;
    tasks[task] = labelled ? compare(inputs, scores, references[task]) : perplexityOf(inputs, scores);
    console.error(`${name}: ${task} ${JSON.stringify(tasks[task])}`);
  }
  const { slot, expertBytes, dense: denseBytes } = engine.plan;
  const bytes = { expertBlockBytes: slot, expertBytes, denseBytes };
  runs.push({ experts, dense, activations, ...(control !== undefined && { control }), ...bytes, tasks });
  engine.close();
  rmSync(out, { recursive: true });
}
const result = {
  question: 'What do quantized weights cost in accuracy?',
  ...scriptProvenance(),
  model: basename(MODEL),
  task: TASK,
  runs,
};
writeResult(`quantized-accuracy-${result.model}`, result);
