// What does a pass spend on selecting, invoking and moving experts, by the experts of a layer? Figure 3 of SiDA-MoE.
// Switch-base shapes with 8 to 256 experts a layer and random weights serve sentences of SST-2, recorded by --profile:
// with every expert in memory, at a budget with loads on demand, and at it with tables that are right (the traced
// routing of what is served). The one thing that differs between the shapes is the number of experts.
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { convertCheckpoint } from '../../dist/checkpoint/converter.js';
import { passParts } from '../dist/studies/pass-parts.js';
import { BUNDLED_SST2, hashFunctionModule, MINI_DIRECTORY } from '../dist/support/paths.js';
import { makeSwitchCheckpoint, sida } from '../dist/support/processes.js';
import { scriptProvenance } from '../dist/support/provenance.js';
import { scriptOptions, writeResult } from '../dist/support/script.js';
import { ServeProcess } from '../dist/support/serve-process.js';

const HELP = `node bench/scripts/pass-parts.mjs [--experts 8,64,128,256] [--budget 20%] [--dtype int4] [--sentences 48]
  [--layers 12] [--decoder-layers 12] [--d-ff 3072] [--dir DIR] [--quick]
Checkpoint (bf16: 54 GB of 256 experts) and pack of one shape are on the disk at a time; --dir says where. The result is
bench/results/pass-parts.json.`;

const options = scriptOptions(HELP, {
  experts: '8,64,128,256',
  budget: '20%',
  dtype: 'int4',
  sentences: '48',
  layers: '12',
  'decoder-layers': '12',
  'd-ff': '3072',
  dir: undefined,
  quick: false,
});
const { budget, dtype } = options;
const dir = options.dir ?? mkdtempSync(join(tmpdir(), 'sida-pass-parts-'));
const TEMPLATE = 'sst2 sentence: {text}';

const count = Number(options.sentences);
const lines = readFileSync(BUNDLED_SST2, 'utf8').trim().split('\n').slice(0, count);
const sentences = lines.map((line) => JSON.parse(line).text);

const SYSTEMS = {
  resident: () => ['--predictor', 'none', '--memory-budget', '100%'],
  'on demand': () => ['--predictor', 'none', '--memory-budget', budget],
  'right tables': (at) => [
    ...['--predictor', at('trace')],
    ...['--memory-budget', budget, '--route-ahead', '0'],
  ],
};

/** The shape's pack and the traced routing of the sentences. */
async function prepare(experts, at) {
  const model = at('checkpoint');
  const shape = ['layers', 'decoder-layers', 'd-ff'].flatMap((name) => [`--${name}`, options[name]]);
  await makeSwitchCheckpoint(model, ['--experts', experts, '--dtype', 'bf16', '--vocab', '8000', ...shape]);
  copyFileSync(join(MINI_DIRECTORY, 'tokenizer.json'), join(model, 'tokenizer.json'));
  await convertCheckpoint({ model, out: at('pack'), experts: dtype, dense: 'auto' });
  rmSync(model, { recursive: true });
  writeFileSync(at('served.jsonl'), lines.join('\n'));
  // biome-ignore format: a command line
  await sida(['trace', at('pack'), '--data', at('served.jsonl'), '--template', TEMPLATE, '--out', at('trace'),
    '--max-new-tokens', '1', '--memory-budget', '100%', '--max-batch-tokens', '256']);
}

/** Every sentence once, one at a time, by a server that records. */
async function serve(flags) {
  const usual = ['--max-batch-tokens', '256', '--batch-wait-ms', '0', '--log-level', 'error'];
  const server = await ServeProcess.start([...flags, ...usual]);
  try {
    for (const input of sentences) {
      await server.post('/v1/classify', { template: TEMPLATE, labels: ['negative', 'positive'], input });
    }
  } finally {
    await server.stop();
  }
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
      // The server inherits it.
      delete process.env.SIDA_HASH_FUNCTION_MODULE;
      if (system === 'right tables') process.env.SIDA_HASH_FUNCTION_MODULE = hashFunctionModule('replay');
      const profile = at('profile.json');
      await serve(['--model', at('pack'), ...flags(at), '--profile', profile]);
      const trace = JSON.parse(readFileSync(profile, 'utf8'));
      if (trace.otherData.dropped > 0) throw new Error(`${trace.otherData.dropped} events were dropped`);
      const passes = trace.traceEvents.filter(({ cat, ph }) => ph === 'X' && cat === 'pass').length;
      const moved = trace.traceEvents.filter(({ cat }) => cat === 'transfer');
      const bytes = moved.reduce((sum, { args }) => sum + (args?.bytes ?? 0), 0);
      runs.push({ experts: Number(experts), system, passes, parts: passParts(trace), bytes });
    }
    return runs;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

try {
  const runs = [];
  for (const experts of options.experts.split(',')) runs.push(...(await measure(experts)));
  const shape = {
    layers: Number(options.layers),
    decoderLayers: Number(options['decoder-layers']),
    dFf: Number(options['d-ff']),
  };
  const result = {
    question: 'What does a pass spend on selecting, invoking and moving experts?',
    ...scriptProvenance(),
    ...{ weights: 'random', routing: 'routing of random weights', dtype, budget, ...shape },
    inputs: sentences.length,
    control: 'resident: the same shape with every expert in memory',
    runs,
  };
  writeResult('pass-parts', result, options.quick);
} finally {
  if (options.dir === undefined) rmSync(dir, { recursive: true, force: true });
}
