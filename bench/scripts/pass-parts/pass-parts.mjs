// What does a pass spend on selecting, invoking and moving experts, by the experts of a layer? Figure 3 of SiDA-MoE.
// Switch-base shapes with 8 to 256 experts a layer and random weights serve sentences of SST-2, recorded by --profile:
// with every expert in memory, at a budget with loads on demand, and at it with tables that are right (the traced
// routing of what is served). The one thing that differs between the shapes is the number of experts.
//   node bench/scripts/pass-parts/pass-parts.mjs [--experts 8,64,128,256] [--budget 20%] [--dtype int4]
//     [--sentences 48] [--clients 1] [--layers 12] [--decoder-layers 12] [--d-ff 3072] [--dir DIR] [--quick]
// Checkpoint (bf16: 54 GB of 256 experts) and pack of one shape are on the disk at a time; --dir says where.
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { convertCheckpoint } from '../../../dist/checkpoint/converter.js';
import { passPartsChart } from '../../dist/charts/pass-parts.js';
import { renderSvg } from '../../dist/charts/svg.js';
import { passParts } from '../../dist/studies/pass-parts.js';
import { BUNDLED_SST2, hashFunctionModule, MINI_DIRECTORY, REPOSITORY } from '../../dist/support/paths.js';
import { makeSwitchCheckpoint, sida } from '../../dist/support/processes.js';
import { scriptProvenance } from '../../dist/support/provenance.js';
import { writeResult } from '../../dist/support/script-result.js';
import { serveRecorded, TEMPLATE } from '../profile/serve-recorded.mjs';

const text = (fallback) => ({ type: 'string', default: fallback });
const { values } = parseArgs({
  options: {
    experts: text('8,64,128,256'),
    budget: text('20%'),
    dtype: text('int4'),
    sentences: text('48'),
    clients: text('1'),
    layers: text('12'),
    'decoder-layers': text('12'),
    'd-ff': text('3072'),
    dir: { type: 'string' },
    quick: { type: 'boolean', default: false },
  },
});
const dir = resolve(values.dir ?? mkdtempSync(join(tmpdir(), 'sida-pass-parts-')));
process.chdir(REPOSITORY);
const { quick, budget, dtype } = values;
const CHART = quick ? 'build/bench-quick/pass-parts.svg' : 'docs/charts/pass-parts.svg';

const count = Number(values.sentences);
const lines = readFileSync(BUNDLED_SST2, 'utf8').trim().split('\n').slice(0, count);
const sentences = lines.map((line) => JSON.parse(line).text);

const SYSTEMS = {
  resident: () => ['--predictor', 'none', '--memory-budget', '100%'],
  'on demand': () => ['--predictor', 'none', '--memory-budget', budget],
  'right tables': (at) => [
    ...['--predictor', at('trace'), '--governor', 'off'],
    ...['--memory-budget', budget, '--look-ahead-layers', '0'],
  ],
};

/** The shape's pack and the traced routing of the sentences. */
async function prepare(experts, at) {
  const model = at('checkpoint');
  const shape = ['layers', 'decoder-layers', 'd-ff'].flatMap((name) => [`--${name}`, values[name]]);
  await makeSwitchCheckpoint(model, ['--experts', experts, '--dtype', 'bf16', '--vocab', '8000', ...shape]);
  copyFileSync(join(MINI_DIRECTORY, 'tokenizer.json'), join(model, 'tokenizer.json'));
  await convertCheckpoint({ model, out: at('pack'), experts: dtype, dense: 'auto' });
  rmSync(model, { recursive: true });
  writeFileSync(at('served.jsonl'), lines.join('\n'));
  // biome-ignore format: a command line
  await sida(['trace', at('pack'), '--data', at('served.jsonl'), '--template', TEMPLATE, '--out', at('trace'),
    '--max-new-tokens', '1', '--memory-budget', '100%', '--max-batch-tokens', '256']);
}

async function measure(experts) {
  const folder = join(dir, `experts-${experts}`);
  const at = (name) => join(folder, name);
  mkdirSync(folder, { recursive: true });
  try {
    await prepare(experts, at);
    const runs = [];
    for (const [system, flags] of Object.entries(SYSTEMS)) {
      console.error(`${experts} experts, ${system}`);
      // Servers inherit it.
      delete process.env.SIDA_HASH_FUNCTION_MODULE;
      if (system === 'right tables') process.env.SIDA_HASH_FUNCTION_MODULE = hashFunctionModule('replay');
      const profile = at('profile.json');
      const options = { flags: ['--model', at('pack'), ...flags(at)], profile };
      await serveRecorded({ ...options, sentences, clients: Number(values.clients) });
      const summary = JSON.parse(await sida(['profile', profile, '--json']));
      if (summary.dropped > 0) throw new Error(`${summary.dropped} events of ${system} were dropped`);
      const { passes, transfers, tables } = summary;
      runs.push({ experts: Number(experts), system, passes, parts: passParts(summary), transfers, tables });
    }
    return runs;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

try {
  const runs = [];
  for (const experts of values.experts.split(',')) runs.push(...(await measure(experts)));
  const shape = {
    layers: Number(values.layers),
    decoderLayers: Number(values['decoder-layers']),
    dFf: Number(values['d-ff']),
  };
  const about = `Switch-base shape, ${shape.layers} + ${shape.decoderLayers} layers, ${dtype} experts, random weights`;
  const result = {
    question: 'What does a pass spend on selecting, invoking and moving experts?',
    ...scriptProvenance(),
    ...{ weights: 'random', routing: 'routing of random weights', dtype, budget, ...shape },
    ...{ inputs: sentences.length, clients: Number(values.clients) },
    control: 'resident: the same shape with every expert in memory',
    runs,
  };
  writeResult('pass-parts', result, quick);
  mkdirSync(dirname(CHART), { recursive: true });
  writeFileSync(
    CHART,
    await renderSvg(passPartsChart(runs, `${about}; SST-2, budget ${budget} but for resident`)),
  );
} finally {
  if (values.dir === undefined) rmSync(dir, { recursive: true, force: true });
}
