// Are the defaults ever slower than doing without prediction (P17)? Four servers of one model answer the same requests
// in turn: the defaults, `--predictor none`, and two controls: tables and looking ahead that nothing governs, and
// `--predictor none` started again, since two processes of one kind differ, too.
import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { basename } from 'node:path';
import { parseArgs } from 'node:util';
import { scriptProvenance } from '../../dist/support/provenance.js';
import { writeResult } from '../../dist/support/script-result.js';
import { pairedBlocks, percentOf, requestsOf, slower, textsOf } from '../paired-servers.mjs';

const HELP = `node bench/scripts/governor/governor.mjs [options]
  --model DIR            models/switch-words, or another model with a task or for completions
  --memory-budget LIST   10%,25%
  --task NAME            classify by this task; without it, completions of --tokens tokens
  --texts FILE           lines of JSON with a "text", asked one after the other
  --tokens 16            of a completion
  --link-bandwidth RATE  of the servers
  --blocks 60            of each server, measured
  --warm-up 40           blocks before them, in which the governor finds its first answer
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
    'link-bandwidth': { type: 'string' },
    blocks: { type: 'string', default: '60' },
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
const [blocks, warmUp, size] = [values.blocks, values['warm-up'], values.block].map(Number);

/** The defaults, none, prediction that nothing governs, and none again. */
const SERVERS = [[], ['--predictor', 'none'], ['--governor', 'off'], ['--predictor', 'none']];

async function measure(budget) {
  const common = ['--model', values.model, '--memory-budget', budget, '--threads', values.threads];
  if (values['link-bandwidth'] !== undefined) common.push('--link-bandwidth', values['link-bandwidth']);
  const { times, said } = await pairedBlocks({
    label: `${basename(values.model)} with ${budget}`,
    flags: SERVERS.map((args) => [...common, ...args]),
    texts: textsOf(values.texts),
    requests: requestsOf({ task: values.task, tokens: Number(values.tokens) }),
    ...{ blocks, warmUp, size },
    after: async ({ url }) => (await fetch(`${url}/admin/predictor`)).json(),
  });
  const [defaults, none, ungoverned, again] = times;
  return {
    budget,
    requests: blocks * size,
    blocks,
    defaults: slower(defaults, none),
    ungoverned: slower(ungoverned, none),
    again: slower(again, none),
    governor: said[0],
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
  threads: Number(values.threads),
  rows,
});
