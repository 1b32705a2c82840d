// What it gains that the routers of later layers name experts ahead (P22). Servers of one model answer the same
// requests in turn: one without any prediction, one for each number of layers, and one without prediction again.
import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { basename } from 'node:path';
import { parseArgs } from 'node:util';
import { scriptProvenance } from '../../dist/support/provenance.js';
import { writeResult } from '../../dist/support/script-result.js';
import { pairedBlocks, percentOf, requestsOf, slower, textsOf } from '../paired-servers.mjs';
import { countersSince } from '../server-counters.mjs';

const HELP = `node bench/scripts/look-ahead/look-ahead.mjs [options]
  --model DIR            a model for completions, or one with a task
  --memory-budget LIST   25%,60%
  --layers LIST          1,2
  --task NAME            classify by this task; without it, completions of --tokens tokens
  --texts FILE           lines of JSON with a "text", asked one after the other
  --tokens 16            of a completion
  --link-bandwidth RATE  of the servers
  --host-budget SIZE     of the servers
  --blocks 40            of each server, measured
  --warm-up 10           blocks before them
  --block 4              requests of a block
  --threads N
  --out NAME             of the result, bench/results/look-ahead.json by default
Example:
  node bench/scripts/padded/pad-experts.mjs --model models/olmoe-mini --out build/olmoe-padded --ff 8192
  sida convert build/olmoe-padded --out build/olmoe-padded.pack --experts int4
  node bench/scripts/look-ahead/look-ahead.mjs --model build/olmoe-padded.pack`;

const { values } = parseArgs({
  options: {
    help: { type: 'boolean', default: false },
    model: { type: 'string', default: 'models/olmoe-mini' },
    'memory-budget': { type: 'string', default: '25%,60%' },
    layers: { type: 'string', default: '1,2' },
    task: { type: 'string' },
    texts: { type: 'string', default: 'models/switch-words/words/unknown.jsonl' },
    tokens: { type: 'string', default: '16' },
    'link-bandwidth': { type: 'string' },
    'host-budget': { type: 'string' },
    blocks: { type: 'string', default: '40' },
    'warm-up': { type: 'string', default: '10' },
    block: { type: 'string', default: '4' },
    threads: { type: 'string', default: String(availableParallelism()) },
    out: { type: 'string', default: 'look-ahead' },
  },
});
if (values.help) {
  console.log(HELP);
  process.exit(0);
}
for (const path of [values.model, values.texts]) {
  if (!existsSync(path)) throw new Error(`${path} does not exist`);
}
const [blocks, warmUp, size] = [values.blocks, values['warm-up'], values.block].map(Number);
/** Without, each number of layers, and without again. */
const LOOKED_AHEAD = [0, ...values.layers.split(',').map(Number), 0];

/** A server's metrics. */
async function metricsOf(server) {
  // The engine reports its counters once a second while it is idle.
  await new Promise((resolve) => setTimeout(resolve, 1_200));
  return server.metrics();
}

async function measure(budget) {
  const common = ['--model', values.model, '--memory-budget', budget, '--threads', values.threads];
  common.push('--predictor', 'none', '--governor', 'off');
  for (const name of ['link-bandwidth', 'host-budget']) {
    if (values[name] !== undefined) common.push(`--${name}`, values[name]);
  }
  const { times, said } = await pairedBlocks({
    label: `${basename(values.model)} with ${budget}`,
    flags: LOOKED_AHEAD.map((layers) => [...common, '--look-ahead-layers', String(layers)]),
    texts: textsOf(values.texts),
    requests: requestsOf({ task: values.task, tokens: Number(values.tokens) }),
    ...{ blocks, warmUp, size },
    before: metricsOf,
    after: async (server, before) => countersSince(await metricsOf(server), before),
  });
  return LOOKED_AHEAD.map((layers, i) => {
    return { budget, layers, slower: i === 0 ? null : slower(times[i], times[0]), ...said[i] };
  });
}

const rows = [];
for (const budget of values['memory-budget'].split(',')) rows.push(...(await measure(budget)));
for (const { budget, layers, slower: by, ...figures } of rows) {
  const share = (part, whole) => `${((100 * part) / whole).toFixed(1)} %`;
  const { needed, foreseen } = figures;
  const found = ['resident', 'prefetched', 'late', 'onDemand'].map(
    (how) => `${how} ${share(figures[how], needed)}`,
  );
  console.log(
    `${budget}, ${layers} layers: slower by ${by === null ? '-' : percentOf(by)}; ${found.join(', ')}; ` +
      `foreseen ${foreseen}, wasted ${figures.wasted}; ` +
      `stalled ${share(figures.stallSeconds, figures.seconds)} of passes; ` +
      `${(figures.bytes / figures.passes / 2 ** 20).toFixed(2)} MiB a pass`,
  );
}
writeResult(values.out, {
  question: 'What does it gain that routers of later layers name experts ahead?',
  ...scriptProvenance(),
  model: basename(values.model),
  task: values.task ?? 'completions',
  linkBandwidth: values['link-bandwidth'] ?? null,
  hostBudget: values['host-budget'] ?? null,
  threads: Number(values.threads),
  requests: blocks * size,
  blocks,
  rows,
});
