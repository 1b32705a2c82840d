// Are the defaults ever slower than doing without prediction (P17)? Four servers of one model answer the same requests
// in turn: the defaults, `--predictor none`, and two controls: tables and looking ahead that nothing governs, and
// `--predictor none` started again. Two processes of one kind differ for as long as they run, so all are started
// several times, and the interval is over the starts.
import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { basename } from 'node:path';
import { parseArgs } from 'node:util';
import { scriptProvenance } from '../../dist/support/provenance.js';
import { writeResult } from '../../dist/support/script-result.js';
import { median } from '../../dist/support/statistics.js';
import { pairedBlocks, percentOf, requestsOf, slowerByStarts, textsOf } from '../paired-servers.mjs';

const HELP = `node bench/scripts/governor/governor.mjs [options]
  --model DIR            models/switch-words, or another model with a task or for completions
  --memory-budget LIST   10%,25%
  --task NAME            classify by this task; without it, completions of --tokens tokens
  --texts FILE           lines of JSON with a "text", asked in turn
  --tokens 16            of a completion
  --clients 1            requests at a time, which share batches
  --link-bandwidth RATE  of the servers
  --starts 8             of all servers
  --blocks 15            of each server and start, measured
  --warm-up 40           blocks before them, not measured; the governor may need more for its first verdict
  --block 20             requests of a block
  --threads N
  --out NAME             of the result, bench/results/governor.json by default
Examples:
  node bench/scripts/governor/governor.mjs --model models/switch-words --task category \\
    --texts models/switch-words/words/known-held-out.jsonl
  node bench/scripts/governor/governor.mjs --model models/olmoe-mini --texts models/switch-words/words/unknown.jsonl \\
    --out governor-olmoe-mini`;

const { values } = parseArgs({
  options: {
    help: { type: 'boolean', default: false },
    model: { type: 'string', default: 'models/switch-words' },
    'memory-budget': { type: 'string', default: '10%,25%' },
    task: { type: 'string' },
    texts: { type: 'string', default: 'models/switch-words/words/known-held-out.jsonl' },
    tokens: { type: 'string', default: '16' },
    clients: { type: 'string', default: '1' },
    'link-bandwidth': { type: 'string' },
    starts: { type: 'string', default: '8' },
    blocks: { type: 'string', default: '15' },
    'warm-up': { type: 'string', default: '40' },
    block: { type: 'string', default: '20' },
    threads: { type: 'string', default: String(availableParallelism()) },
    out: { type: 'string', default: 'governor' },
  },
});
if (values.help) {
  console.log(HELP);
  process.exit(0);
}
for (const path of [values.model, values.texts]) {
  if (!existsSync(path)) throw new Error(`${path} does not exist`);
}
const [starts, blocks, warmUp, size] = [values.starts, values.blocks, values['warm-up'], values.block].map(
  Number,
);
const clients = Number(values.clients);
if (!(starts >= 2)) throw new Error(`Expected --starts to be 2 or more, found ${values.starts}`);

/** The defaults, none, prediction that nothing governs, and none again. */
const SERVERS = [[], ['--predictor', 'none'], ['--governor', 'off'], ['--predictor', 'none']];

async function measure(budget) {
  const common = ['--model', values.model, '--memory-budget', budget, '--threads', values.threads];
  if (values['link-bandwidth'] !== undefined) common.push('--link-bandwidth', values['link-bandwidth']);
  const flags = SERVERS.map((args) => [...common, ...args]);
  const found = [];
  for (let start = 0; start < starts; start += 1) {
    // Which server starts first changes, in case that matters.
    const order = flags.map((_, i) => (i + start) % flags.length);
    const { times, said } = await pairedBlocks({
      label: `${basename(values.model)} with ${budget}, start ${start + 1} of ${starts}`,
      flags: order.map((at) => flags[at]),
      texts: textsOf(values.texts),
      requests: requestsOf({ task: values.task, tokens: Number(values.tokens) }),
      ...{ blocks, warmUp, size, clients },
      after: async ({ url }) => (await fetch(`${url}/admin/predictor`)).json(),
    });
    const inOrder = (list) => flags.map((_, at) => list[order.indexOf(at)]);
    found.push({ times: inOrder(times), governor: inOrder(said)[0] });
  }
  const overNone = (at) => slowerByStarts(found.map(({ times }) => [times[at], times[1]]));
  return {
    budget,
    starts,
    requests: starts * blocks * size,
    blocks,
    defaults: overNone(0),
    ungoverned: overNone(2),
    again: overNone(3),
    // Median milliseconds of a block, by start: of the defaults, none, ungoverned, and none again.
    medians: found.map(({ times }) => times.map(median)),
    governors: found.map(({ governor }) => governor),
  };
}

const rows = [];
for (const budget of values['memory-budget'].split(',')) rows.push(await measure(budget));
for (const { budget, defaults, ungoverned, again } of rows) {
  const [own, free, control] = [defaults, ungoverned, again].map(percentOf);
  console.log(`${budget}: slower than none by ${own}; ungoverned by ${free}; none again by ${control}`);
}
writeResult(values.out, {
  question: 'Are the defaults ever slower than --predictor none?',
  ...scriptProvenance(),
  model: basename(values.model),
  task: values.task ?? 'completions',
  linkBandwidth: values['link-bandwidth'] ?? null,
  clients,
  threads: Number(values.threads),
  rows,
});
