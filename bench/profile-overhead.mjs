// What does a recording cost, and what does it cost not to record? Encoder passes of the bundled model, all experts
// resident, in blocks that take turns in one process: without a recording, with one, and with a build of the addon that
// has no recorder in it.
//   npx cmake-js compile --CDSIDA_PROFILE=OFF --out build/addon-plain
//   node bench/profile-overhead.mjs [--against build/addon-plain/Release/sida.node] [--blocks 60] [--passes 40]
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism, cpus, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { convertCheckpoint } from '../dist/checkpoint/converter.js';
import { loadAddon } from '../dist/native/addon.js';
import { Tokenizer } from '../dist/tokenizer/tokenizer.js';

const { values } = parseArgs({
  options: {
    against: { type: 'string', default: 'build/addon-plain/Release/sida.node' },
    blocks: { type: 'string', default: '60' },
    passes: { type: 'string', default: '40' },
  },
});
const dir = mkdtempSync(join(tmpdir(), 'sida-bench-'));
const pack = join(dir, 'pack');
const tokenizer = new Tokenizer(readFileSync('models/switch-mini/tokenizer.json', 'utf8'), {
  vocabSize: 8000,
  maxInputBytes: 1 << 20,
});
const passes = readFileSync('test/data/sst2-validation.jsonl', 'utf8')
  .trim()
  .split('\n', Number(values.passes))
  .map((line) => Int32Array.from(tokenizer.encode(JSON.parse(line).text)));
const one = Int32Array.of(1);

function open(addon) {
  const limits = { maxBatchTokens: 256, kvTokens: 512, threads: availableParallelism() };
  const { resident } = addon.planMemory({ pack }, limits);
  const rest = { hostBudgetBytes: 0, linkBandwidth: 0, linkLatency: 0 };
  return new addon.Engine({ pack, budgetBytes: resident, ...rest, ...limits });
}

/** Milliseconds of each pass of a block. */
function block(engine) {
  return passes.map((tokens) => {
    const begin = performance.now();
    engine.runBatch(
      { phase: 'encode', sequences: one, offsets: Int32Array.of(0, tokens.length), tokens },
      null,
    );
    const ms = performance.now() - begin;
    engine.releaseContexts(one);
    return ms;
  });
}

const median = (list) => list.toSorted((a, b) => a - b)[list.length >> 1];
const quartiles = (list) =>
  [0.25, 0.5, 0.75].map((q) => list.toSorted((a, b) => a - b)[Math.floor(q * list.length)]);

try {
  await convertCheckpoint({ model: 'models/switch-mini', out: pack, experts: 'auto', dense: 'auto' });
  const addon = loadAddon();
  const engine = open(addon);
  const systems = {
    off: () => block(engine),
    recording: () => {
      addon.profile.start(4 << 20);
      const times = block(engine);
      const { lanes, dropped } = addon.profile.stop();
      events = lanes.reduce((sum, { op }) => sum + op.length, 0) / passes.length;
      if (dropped > 0) throw new Error(`${dropped} events dropped`);
      return times;
    },
  };
  let events = 0;
  const plain = open(createRequire(import.meta.url)(resolve(values.against)));
  systems.without = () => block(plain);
  const names = Object.keys(systems);
  const times = Object.fromEntries(names.map((name) => [name, []]));
  for (let turn = 0; turn < Number(values.blocks) + 5; turn++) {
    // Another one goes first each time; the first turns warm up.
    for (let i = 0; i < names.length; i++) {
      const name = names[(turn + i) % names.length];
      const ms = median(systems[name]());
      if (turn >= 5) times[name].push(ms);
    }
  }
  const ratio = (a, b) => quartiles(times[a].map((ms, turn) => ms / times[b][turn]));
  const result = {
    question: 'What does a recording cost, and what does it cost not to record?',
    command: `node bench/profile-overhead.mjs --blocks ${values.blocks} --passes ${values.passes}`,
    commit: execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim(),
    machine: `${cpus()[0].model}, ${availableParallelism()} cores`,
    node: process.version,
    isa: addon.cpuFeatures().isa,
    eventsPerPass: events,
    medianMs: Object.fromEntries(names.map((name) => [name, median(times[name])])),
    /** Lower quartile, median and upper quartile of the turns' ratios. */
    recordingOverOff: ratio('recording', 'off'),
    offOverWithout: ratio('off', 'without'),
  };
  writeFileSync('bench/results/profile-overhead.json', `${JSON.stringify(result, null, 1)}\n`);
  console.log(result);
} finally {
  rmSync(dir, { recursive: true, force: true });
}
