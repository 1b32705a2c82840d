// What does a pass spend on selecting, invoking and moving experts, by the experts of a layer? Figure 3 of SiDA-MoE.
// Switch-base shapes with 8 to 256 experts a layer and random weights serve sentences of SST-2, recorded by --profile:
// with every expert in memory, at a budget with loads on demand, and at it with tables that are right (the traced
// routing of what is served). The one thing that differs between the shapes is the number of experts.
import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { convertCheckpoint } from '../../dist/checkpoint/converter.js';
import { passParts } from '../dist/studies/pass-parts.js';
import { hashFunctionModule, MINI_DIRECTORY } from '../dist/support/paths.js';
import { makeSwitchCheckpoint, sida } from '../dist/support/processes.js';
import { scriptProvenance } from '../dist/support/provenance.js';
import { optionsOf, scratchDirectory, words, writeResult } from '../dist/support/script.js';
import { ServeProcess } from '../dist/support/serve-process.js';
import { sst2Texts } from '../dist/support/sst2.js';

const HELP = `node bench/scripts/pass-parts.mjs [--experts 8,64,128,256] [--budget 20%] [--dtype int4] [--sentences 48]
  [--layers 12] [--decoder-layers 12] [--d-ff 3072] [--dir DIR] [--device cpu] [--save pass-parts] [--quick]
Checkpoint (bf16: 54 GB of 256 experts) and pack of one shape are on the disk at a time; --dir says where. The result is
bench/results/pass-parts.json.`;

const options = optionsOf(HELP);
const { device, budget, dtype, layers, 'decoder-layers': decoderLayers, 'd-ff': dFf } = options;
const dir = options.dir ?? scratchDirectory();
const TEMPLATE = 'sst2 sentence: {text}';
const sentences = sst2Texts(options.sentences);

const SYSTEMS = {
  resident: () => ['--predictor', 'none', '--memory-budget', '100%'],
  'on demand': () => ['--predictor', 'none', '--memory-budget', budget],
  'right tables': (at) => words`--predictor ${at('trace')} --memory-budget ${budget} --route-ahead 0`,
};

/** The shape's pack and the traced routing of the sentences. */
async function prepare(experts, at) {
  const model = at('checkpoint');
  const shape = words`--layers ${layers} --decoder-layers ${decoderLayers} --d-ff ${dFf}`;
  await makeSwitchCheckpoint(model, words`--experts ${experts} --dtype bf16 --vocab 8000`.concat(shape));
  copyFileSync(join(MINI_DIRECTORY, 'tokenizer.json'), join(model, 'tokenizer.json'));
  await convertCheckpoint({ model, out: at('pack'), experts: dtype, dense: 'auto' });
  rmSync(model, { recursive: true });
  writeFileSync(at('served.jsonl'), sentences.map((text) => JSON.stringify({ text })).join('\n'));
  const given = words`trace ${at('pack')} --data ${at('served.jsonl')} --template ${TEMPLATE} --out ${at('trace')}`;
  await sida([...given, ...words`--max-new-tokens 1 --memory-budget 100% --max-batch-tokens 256`]);
}

/** Every sentence once, one at a time, by a server that records. */
async function serve(flags) {
  const usual = words`--max-batch-tokens 256 --batch-wait-ms 0 --log-level error --device ${device}`;
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

const runs = [];
for (const experts of options.experts.split(',')) runs.push(...(await measure(experts)));
const result = {
  question: 'What does a pass spend on selecting, invoking and moving experts?',
  ...scriptProvenance(),
  ...{ weights: 'random', routing: 'routing of random weights', dtype, budget, layers, decoderLayers, dFf },
  inputs: sentences.length,
  control: 'resident: the same shape with every expert in memory',
  runs,
};
writeResult(options.save, result, options.quick);
