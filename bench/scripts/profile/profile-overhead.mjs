// What does a recording cost, and what does it cost not to record? Encoder passes of switch-mini, all experts
// resident, in blocks that take turns in one process: without a recording, with one, and with a build of the addon that
// has no recorder in it.
//   npx cmake-js compile --CDSIDA_PROFILE=OFF --out build/addon-plain
//   node bench/scripts/profile/profile-overhead.mjs [--against build/addon-plain/Release/sida.node] [--rounds 24]
//     [--turns 6] [--passes 40]
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { convertCheckpoint } from '../../../dist/checkpoint/converter.js';
import { loadAddon } from '../../../dist/native/addon.js';
import { MINI_DIRECTORY } from '../../dist/support/paths.js';
import { scriptProvenance } from '../../dist/support/provenance.js';
import { writeResult } from '../../dist/support/script-result.js';
import { sst2Tokens } from '../../dist/support/sst2.js';
import { median, quantile } from '../../dist/support/statistics.js';

const { values } = parseArgs({
  options: {
    against: { type: 'string', default: 'build/addon-plain/Release/sida.node' },
    rounds: { type: 'string', default: '24' },
    turns: { type: 'string', default: '6' },
    passes: { type: 'string', default: '40' },
  },
});
const dir = mkdtempSync(join(tmpdir(), 'sida-bench-'));
const pack = join(dir, 'pack');
const passes = sst2Tokens(Number(values.passes));
const one = Int32Array.of(1);

function open(addon) {
  // One thread: a second one that other work delays would hide what is looked for.
  const limits = { maxBatchTokens: 256, kvTokens: 512, threads: 1 };
  const { resident } = addon.planMemory({ pack }, limits);
  const rest = { hostBudgetBytes: 0, linkBandwidth: 0, linkLatency: 0 };
  return new addon.Engine({ pack, budgetBytes: resident, ...rest, ...limits });
}

/** Milliseconds of each pass of a block. */
function block(engine) {
  return passes.map((tokens) => {
    const begin = performance.now();
    engine.runBatch({ stack: 0, sequences: one, offsets: Int32Array.of(0, tokens.length), tokens }, null);
    const ms = performance.now() - begin;
    engine.releaseSequences(one);
    return ms;
  });
}

const quartiles = (list) => [0.25, 0.5, 0.75].map((q) => quantile(list, q));

try {
  await convertCheckpoint({ model: MINI_DIRECTORY, out: pack, experts: 'auto', dense: 'auto' });
  const addon = loadAddon();
  const plain = createRequire(import.meta.url)(resolve(values.against));
  let events = 0;
  const recorded = (engine) => {
    addon.profile.start(4 << 20);
    const times = block(engine);
    const { lanes, dropped } = addon.profile.stop();
    events = lanes.reduce((total, { op }) => total + op.length, 0) / passes.length;
    if (dropped > 0) throw new Error(`${dropped} events dropped`);
    return times;
  };
  // `again` is another engine of the build of `off`: what differs between them is where their memory lies.
  const systems = {
    off: { addon, run: block },
    again: { addon, run: block },
    recording: { addon, run: recorded },
    without: { addon: plain, run: block },
  };
  const names = Object.keys(systems);
  const times = Object.fromEntries(names.map((name) => [name, []]));
  // Of each sentence, over all turns: other work on the machine only ever slows.
  const least = Object.fromEntries(names.map((name) => [name, passes.map(() => Infinity)]));
  for (let round = 0; round < Number(values.rounds); round++) {
    // Opened anew in another order: memory that lies well or badly is not of the build.
    const order = names.map((_, i) => names[(round + i) % names.length]);
    const engines = Object.fromEntries(order.map((name) => [name, open(systems[name].addon)]));
    for (let turn = -1; turn < Number(values.turns); turn++) {
      for (let i = 0; i < names.length; i++) {
        const name = order[(Math.max(turn, 0) + i) % names.length];
        const measured = systems[name].run(engines[name]);
        // The first turn warms up.
        if (turn < 0) continue;
        times[name].push(median(measured));
        measured.forEach((ms, sentence) => {
          least[name][sentence] = Math.min(least[name][sentence], ms);
        });
      }
    }
    for (const engine of Object.values(engines)) engine.close();
  }
  const sum = (list) => list.reduce((total, ms) => total + ms, 0);
  const ratio = (a, b) => ({
    least: sum(least[a]) / sum(least[b]),
    turns: quartiles(times[a].map((ms, turn) => ms / times[b][turn])),
  });
  const result = {
    question: 'What does a recording cost, and what does it cost not to record?',
    ...scriptProvenance(),
    eventsPerPass: events,
    medianMs: Object.fromEntries(names.map((name) => [name, median(times[name])])),
    leastMs: Object.fromEntries(names.map((name) => [name, sum(least[name]) / passes.length])),
    /** Of the least times; lower quartile, median and upper quartile of the turns' ratios. */
    againOverOff: ratio('again', 'off'),
    recordingOverOff: ratio('recording', 'off'),
    offOverWithout: ratio('off', 'without'),
  };
  writeResult('profile-overhead', result);
  console.log(result);
} finally {
  rmSync(dir, { recursive: true, force: true });
}
