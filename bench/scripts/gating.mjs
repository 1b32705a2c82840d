// What does static gating cost a whole model, and what does Expert Buffering? "Towards MoE Deployment", figures 9 and
// 10. Batches of a Switch model's own inputs: encoder passes, and steps of the decoder that are fed the input's tokens.
// The engine gates dynamically, with every expert in memory or with Expert Buffering at a budget (LRU beside it).
// Static gating is composed: the engine's pass plus what every MoE layer takes longer at a fixed capacity, measured on
// the pass's own routes by native/bench/gating_bench.cc at the width of the model.
import { writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { trueRouting } from '../../dist/evaluation/model-runner.js';
import { openEngine } from '../../dist/inference/open-engine.js';
import { NOTHING_KNOWN } from '../dist/replay/replay.js';
import { cut } from '../dist/studies/corruption.js';
import { staticPasses } from '../dist/studies/static-passes.js';
import { buildNativeBench, runNativeBench } from '../dist/support/native-bench.js';
import { sida } from '../dist/support/processes.js';
import { scriptProvenance } from '../dist/support/provenance.js';
import { optionsOf, scratchDirectory, writeResult } from '../dist/support/script.js';
import { sst2Texts, tokenizerOf } from '../dist/support/sst2.js';
import { mean, median } from '../dist/support/statistics.js';

const HELP = `node bench/scripts/gating.mjs [options]
  --model models/switch-mini  checkpoint of Switch Transformers, such as one of pad-experts.mjs
  --batches 1,8,32,64        sequences of a batch; each divides --inputs
  --inputs 64 --length 64    sequences, cut from the joined sentences of SST-2, and their tokens
  --steps 8                  decoder steps of each batch
  --factors 1,1.25,2,0       capacity factors; 0: the least capacity that drops nothing
  --budgets 50%,25%          of Expert Buffering and LRU
  --repeats 5                rounds over all batches, and ten times as many layers of the native bench
  --threads 2
  --quick (--batches 1,8 --inputs 8 --repeats 1)  the result goes to build/
The result is bench/results/model-gating.json.`;

const options = optionsOf(HELP);
const { inputs: count, length, steps, factors, budgets, repeats, threads, model, quick } = options;
const batches = options.batches.split(',').map(Number);
const uneven = batches.find((batch) => count % batch !== 0);
if (uneven !== undefined) throw new Error(`--inputs ${count} is no multiple of the batch ${uneven}`);
const STACKS = ['encoder', 'decoder'];
const DTYPE = 'bf16';

const tokenizer = tokenizerOf(model);
const inputs = cut(
  sst2Texts().map((sentence) => Int32Array.from(tokenizer.encode(sentence))),
  length,
).slice(0, count);
if (inputs.length < count) throw new Error(`SST-2 has ${inputs.length} inputs of ${length} tokens`);

const limitsOf = (batch) => ({
  maxBatchTokens: batch * length,
  kvTokens: 2 * batch * (length + steps + 16),
  threads,
});

/** Runs every input in batches; `each` gets the stack and the result of each pass in turn. */
function runAll(engine, batch, { policy, routerLogits = false }, each) {
  const plan = policy === undefined ? null : NOTHING_KNOWN;
  for (let at = 0; at < inputs.length; at += batch) {
    const group = inputs.slice(at, at + batch);
    const prompts = Int32Array.from(group, (_, i) => i);
    const answers = prompts.map((i) => batch + i);
    const offsets = Int32Array.from({ length: batch + 1 }, (_, i) => i * length);
    const tokens = Int32Array.from(group.flatMap((ids) => [...ids]));
    each(0, engine.runBatch({ stack: 0, sequences: prompts, offsets, tokens, routerLogits }, plan));
    for (let step = 0; step < steps; step++) {
      const fed = { tokens: Int32Array.from(group, (ids) => (step === 0 ? 0 : ids[step - 1])) };
      const rows = { offsets: Int32Array.from({ length: batch + 1 }, (_, i) => i), parents: prompts };
      each(1, engine.runBatch({ stack: 1, sequences: answers, ...rows, ...fed, routerLogits }, plan));
    }
    engine.releaseSequences(Int32Array.from([...prompts, ...answers]));
  }
}

/** Experts of the tokens of each MoE layer, by stack, pass after pass: the same whatever the batch. */
function routesOf(engine) {
  const routes = engine.shape.stacks.map(({ moeLayers }) => moeLayers.map(() => []));
  runAll(engine, Math.max(...batches), { routerLogits: true }, (stack, run) => {
    const rows = run.routerLogits.length / engine.shape.experts / run.layers.length;
    const { experts } = trueRouting(run, rows, engine.shape);
    const each = experts.length / run.layers.length;
    routes[stack].forEach((list, layer) => {
      list.push(...experts.subarray(layer * each, (layer + 1) * each));
    });
  });
  return routes;
}

/** Median time and mean bytes of the passes of each stack, for each system. The systems take turns. */
function measured(systems, batch) {
  const passes = systems.map(() => STACKS.map(() => []));
  for (const { engine, policy } of systems) runAll(engine, batch, { policy }, () => {});
  for (let round = 0; round < repeats; round++) {
    for (const [s, { engine, policy }] of systems.entries())
      runAll(engine, batch, { policy }, (stack, { stats }) => passes[s][stack].push(stats));
  }
  return passes.map((stacks) =>
    stacks.map((own) => ({
      ms: median(own.map(({ passNs }) => passNs)) / 1e6,
      bytesMoved: mean(own.map(({ bytesMoved }) => bytesMoved)),
    })),
  );
}

const dir = scratchDirectory();
const pack = join(dir, 'pack');
await sida(['convert', model, '--out', pack, '--experts', DTYPE]);
const open = (batch, memoryBudget, policy = 'lru') =>
  openEngine({ pack, ...limitsOf(batch), memoryBudget, hostBudget: '0', policy });
const traced = open(Math.max(...batches), '100%');
const { shape } = traced;
if (shape.family !== 'switch_transformers') throw new Error(`${shape.family}: the bench computes Switch's experts`);
const routes = routesOf(traced);
traced.close();

const bench = buildNativeBench('gating_bench');
const gated = routes.map((layers, stack) =>
  layers.map((list, layer) => {
    console.error(`${STACKS[stack]}, MoE layer ${layer + 1}: static and dynamic gating`);
    const file = join(dir, 'routes');
    writeFileSync(file, Uint16Array.from(list));
    const sizes = batches.map((batch) => batch * (stack === 0 ? length : 1));
    const { topK, experts, width, expertWidth } = shape;
    const shapes = [file, topK, experts, width, expertWidth, DTYPE];
    return runNativeBench(bench, [...shapes, threads, 10 * repeats, sizes.join(), factors]);
  }),
);

const runs = [];
for (const [b, batch] of batches.entries()) {
  console.error(`batches of ${batch}`);
  const resident = { engine: open(batch, '100%') };
  const tight = budgets
    .split(',')
    .flatMap((budget) =>
      ['expert-buffering', 'lru'].map((policy) => ({ budget, policy, engine: open(batch, budget, policy) })),
    );
  const systems = [resident, ...tight];
  const [dynamic, ...others] = measured(systems, batch);
  const bytes = resident.engine.plan.resident;
  const buffered = tight.map(({ budget, policy, engine }, i) => ({
    ...{ budget, policy, peakBytes: engine.usage().peakBytes },
    stacks: others[i],
  }));
  for (const { engine } of systems) engine.close();
  for (const [stack, name] of STACKS.entries()) {
    const tokens = batch * (stack === 0 ? length : 1);
    const pass = { ms: dynamic[stack].ms, bytes, tokens };
    runs.push({
      ...{ stack: name, batch, ...pass },
      static: staticPasses(
        pass,
        gated[stack].map((sizes) => sizes[b]),
        shape.experts,
      ),
      buffered: buffered.map(({ stacks, ...own }) => ({ ...own, ...stacks[stack] })),
    });
  }
}
writeResult(
  'model-gating',
  {
    question: 'What does static gating cost a whole model, and what does Expert Buffering?',
    ...scriptProvenance(),
    ...{ model: basename(model), dtype: DTYPE, experts: shape.experts },
    ...{ inputs: count, length, steps, threads, repeats },
    control: 'LRU at the budgets of Expert Buffering; outputs of both gatings are compared bit by bit where none drops',
    runs,
  },
  quick,
);
