// What does it cost to compute every expert at a fixed capacity, as DeepSpeed-MoE and Fairseq do, in the place of only
// the rows that are there? One MoE layer of Switch-base width both ways, on the routes of a real model: the bundled
// one's on SST-2 (64 experts, top-1), and those of route traces where given.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { gunzipSync } from 'node:zlib';
import { readMeta, readTrace } from '../../../dist/trace/trace-file.js';
import { buildNativeBench, runNativeBench } from '../../dist/support/native-bench.js';
import { REPOSITORY } from '../../dist/support/paths.js';
import { sida } from '../../dist/support/processes.js';
import { scriptProvenance } from '../../dist/support/provenance.js';
import { writeResult } from '../../dist/support/script-result.js';
import { StepProgress } from '../../dist/support/step-progress.js';

const HELP = `node bench/scripts/static-gating/gating.mjs [options]
  --batches 16,64,256,1024   tokens of a batch
  --factors 1,1.25,2,0       capacity factors; 0: the least capacity that drops nothing
  --repeats 10               measured batches of each size, both ways in turn
  --threads 2
  --trace F.csv.gz           a route trace, may be given again ("turn,phase,step,layer,slot,expert,…"), layer 0
  --json                     print the result and write no file
  --quick                    two sizes, three repeats; the result goes to build/
The result is bench/results/gating.json.`;

const { values } = parseArgs({
  options: {
    help: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
    quick: { type: 'boolean', default: false },
    batches: { type: 'string' },
    factors: { type: 'string', default: '1,1.25,2,0' },
    repeats: { type: 'string' },
    threads: { type: 'string', default: '2' },
    trace: { type: 'string', multiple: true, default: [] },
  },
});
if (values.help) {
  console.log(HELP);
  process.exit(0);
}
const { quick, threads } = values;
const traces = values.trace.map((file) => resolve(file));
// `sida bench` starts it from anywhere.
process.chdir(REPOSITORY);
const batches = values.batches ?? (quick ? '16,64' : '16,64,256,1024');
const repeats = values.repeats ?? (quick ? '3' : '10');
const WIDTH = { dModel: 768, dFf: 3072 };
const dir = mkdtempSync(join(tmpdir(), 'sida-gating-'));

/** Expert of every token of each encoder layer of switch-mini, sentence after sentence. */
async function bundledRoutes() {
  const out = join(dir, 'trace');
  // biome-ignore format: a command line
  await sida(['trace', 'models/switch-mini', '--data', 'test/data/sst2-validation.jsonl',
    '--template', 'sst2 sentence: {text}', '--out', out, '--max-new-tokens', '1', '--threads', threads]);
  const { experts, layers, top } = await readMeta(out);
  const encoderLayers = layers.filter((layer) => layer.startsWith('encoder.'));
  const routes = encoderLayers.map(() => []);
  for await (const {
    stacks: [encoder],
  } of readTrace(out)) {
    const tokens = encoder.tokens.length;
    routes.forEach((list, layer) => {
      for (let t = 0; t < tokens; t++) list.push(encoder.experts[(layer * tokens + t) * top]);
    });
  }
  return encoderLayers.map((layer, i) => ({
    name: `switch-mini, ${layer}`,
    k: 1,
    experts,
    routes: routes[i],
  }));
}

/** A route trace's layer 0, tokens in order. */
function tracedRoutes(file) {
  const text = gunzipSync(readFileSync(file)).toString();
  const [, experts] = /n_expert=(\d+)/.exec(text);
  const tokens = new Map();
  for (const line of text.split('\n')) {
    if (!/^\d/.test(line)) continue;
    const [turn, phase, step, layer, , expert] = line.split(',');
    if (layer !== '0') continue;
    const key = [turn, phase, step].join();
    tokens.set(key, [...(tokens.get(key) ?? []), Number(expert)]);
  }
  const lists = [...tokens.values()];
  const k = lists[0].length;
  return {
    name: `${basename(file).split('.')[0]}, layer 0`,
    k,
    experts: Number(experts),
    routes: lists.filter(({ length }) => length === k).flat(),
  };
}

try {
  const bundled = await bundledRoutes();
  const traced = traces.map(tracedRoutes);
  // The first and the last encoder layer: what they route by differs most.
  const sources = [...new Set([bundled[0], bundled.at(-1)]), ...traced];
  const bench = buildNativeBench('gating_bench');
  const progress = new StepProgress('gating', sources.length);
  const layers = sources.map(({ name, k, experts, routes }) => {
    const file = join(dir, 'routes');
    writeFileSync(file, Uint16Array.from(routes));
    const dtype = experts > 64 ? 'bf16' : 'f32';
    const sizes = batches.split(',').filter((size) => Number(size) * k <= routes.length);
    const { dModel, dFf } = WIDTH;
    // biome-ignore format: a command line
    const runs = runNativeBench(bench, [file, k, experts, dModel, dFf, dtype, threads, repeats, sizes.join(), values.factors]);
    progress.step(name);
    return { name, k, experts, dtype, tokens: routes.length / k, runs };
  });
  const result = {
    question:
      'What does a fixed capacity for every expert cost next to computing only the rows that are there?',
    ...scriptProvenance(),
    threads: Number(threads),
    ...WIDTH,
    repeats: Number(repeats),
    layers,
  };
  if (values.json) console.log(JSON.stringify(result));
  else writeResult('gating', result, quick);
} finally {
  rmSync(dir, { recursive: true, force: true });
}
