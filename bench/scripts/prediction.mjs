// Does prediction pay? Servers of one model answer the same requests in turn: the defaults, `--predictor none`, and
// `--predictor none` started again as a control, over a grid of budgets and links. Two processes of one kind differ for
// as long as they run, so all are started several times, and the intervals are over the starts.

import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { basename } from 'node:path';
import { intervalOf } from '../../dist/evaluation/paired-difference.js';
import { LineProcess } from '../dist/support/line-process.js';
import { hashFunctionModule, SCRIPTS } from '../dist/support/paths.js';
import { scriptProvenance } from '../dist/support/provenance.js';
import { scriptOptions, writeResult } from '../dist/support/script.js';
import { ServeProcess } from '../dist/support/serve-process.js';
import { median } from '../dist/support/statistics.js';
import { StepProgress } from '../dist/support/step-progress.js';

const HELP = `node bench/scripts/prediction.mjs [options]
  --model DIR            models/switch-words, or another model with a task or for completions; repeatable
  --memory-budget LIST   10%,25%
  --link LIST            disk,12GB/s: experts on disk, or in host memory behind a link of that rate
  --system NAME=FLAGS    one more server, such as 'lstm=--hash-function lstm'; repeatable
  --trace DIR            one more server with true tables: a trace (sida trace) of the texts that are asked
  --task NAME            classify by this task; without it, completions of --tokens tokens
  --texts FILE           lines of JSON with a "text", asked in turn
  --tokens 16 --clients 1
  --starts 8             of all servers
  --blocks 15 --block 20 measured blocks of each start, and their requests
  --warm-up 40           blocks before them, not measured
  --threads N
  --quick                two starts of two blocks; the result goes to build/
The result is bench/results/prediction.json.
  node bench/scripts/prediction.mjs --task category`;

const options = scriptOptions(HELP, {
  model: [],
  'memory-budget': '10%,25%',
  link: 'disk,12GB/s',
  system: [],
  trace: undefined,
  task: undefined,
  texts: 'models/switch-words/words/known-held-out.jsonl',
  tokens: '16',
  clients: '1',
  starts: '8',
  blocks: '15',
  block: '20',
  'warm-up': '40',
  threads: String(availableParallelism()),
  quick: false,
});
const { quick, task } = options;
const models = options.model.length > 0 ? options.model : ['models/switch-words'];
const [starts, blocks, warmUp] = quick
  ? [2, 2, 2]
  : ['starts', 'blocks', 'warm-up'].map((name) => Number(options[name]));
const [size, clients] = [Number(options.block), Number(options.clients)];
if (!(starts >= 2)) throw new Error(`expected --starts to be 2 or more, found ${options.starts}`);

const SYSTEMS = {
  default: [],
  none: ['--predictor', 'none'],
  ...Object.fromEntries(
    options.system.map((text) => {
      const [name, ...flags] = text.split('=');
      return [name, flags.join('=').split(' ')];
    }),
  ),
  ...(options.trace !== undefined && { 'true tables': ['--predictor', options.trace] }),
  'none again': ['--predictor', 'none'],
};
const texts = readFileSync(options.texts, 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line).text);
const bodyOf = (text) =>
  task === undefined ? { prompt: text, max_tokens: Number(options.tokens) } : { task, input: text };
const path = task === undefined ? '/v1/completions' : '/v1/classify';

/** Milliseconds of the measured blocks and the bytes that they loaded, by system. */
async function start(label, common, order) {
  const servers = [];
  const client = new LineProcess('the clients', 'node', [`${SCRIPTS}rest/clients.mjs`]);
  try {
    for (const name of order) {
      // The server inherits it.
      delete process.env.SIDA_HASH_FUNCTION_MODULE;
      if (name === 'true tables') process.env.SIDA_HASH_FUNCTION_MODULE = hashFunctionModule('replay');
      servers.push(await ServeProcess.start([...common, ...SYSTEMS[name]]));
    }
    const moved = async (server) => (await server.metrics()).get('sida_experts_moved_bytes_total');
    const progress = new StepProgress(label, warmUp + blocks);
    const times = servers.map(() => []);
    let before;
    for (let block = 0; block < warmUp + blocks; block += 1) {
      if (block === warmUp) before = await Promise.all(servers.map(moved));
      const bodies = Array.from({ length: size }, (_, i) => bodyOf(texts[(block * size + i) % texts.length]));
      // Each server is as often before each other as behind it.
      const turned = servers.map((_, i) => (i + block) % servers.length);
      for (const at of Math.floor(block / servers.length) % 2 === 0 ? turned : turned.reverse()) {
        const { wallMs } = await client.ask({ port: servers[at].port, path, clients, bodies });
        if (block >= warmUp) times[at].push(wallMs);
      }
      progress.step();
    }
    const after = await Promise.all(servers.map(moved));
    return Object.fromEntries(order.map((name, i) => [name, { ms: times[i], bytes: after[i] - before[i] }]));
  } finally {
    await Promise.all([client.close(), ...servers.map((server) => server.stop())]);
  }
}

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

/** Time over that of `none`, less 1: mean and interval over the starts. */
function slower(found, name) {
  const logs = found.map(({ none, [name]: own }) => mean(own.ms.map((ms, i) => Math.log(ms / none.ms[i]))));
  const { mean: middle, low, high } = intervalOf(logs);
  return { mean: Math.expm1(middle), low: Math.expm1(low), high: Math.expm1(high) };
}

const rows = [];
for (const model of models) {
  for (const budget of options['memory-budget'].split(',')) {
    for (const link of options.link.split(',')) {
      const rate =
        link === 'disk' ? ['--host-budget', '0'] : ['--host-budget', '100%', '--link-bandwidth', link];
      const common = ['--model', model, '--memory-budget', budget, '--threads', options.threads, ...rate];
      const names = Object.keys(SYSTEMS);
      const found = [];
      for (let at = 0; at < starts; at += 1) {
        // Which server starts first changes, in case that matters.
        const order = names.map((_, i) => names[(i + at) % names.length]);
        const label = `${basename(model)}, ${budget}, ${link}, start ${at + 1} of ${starts}`;
        found.push(await start(label, common, order));
      }
      for (const system of names) {
        const msOfBlock = median(found.flatMap((own) => own[system].ms));
        const bytes = mean(found.map((own) => own[system].bytes)) / (blocks * size);
        const over = system === 'none' ? null : slower(found, system);
        rows.push({
          model: basename(model),
          budget,
          link,
          system,
          msOfBlock,
          bytesPerRequest: bytes,
          slower: over,
        });
        console.log(JSON.stringify(rows.at(-1)));
      }
    }
  }
}
writeResult(
  'prediction',
  {
    question: 'Does prediction pay?',
    ...scriptProvenance(),
    ...{
      task: task ?? 'completions',
      clients,
      starts,
      blocks,
      block: size,
      threads: Number(options.threads),
      rows,
    },
    control: 'none again: a second server of the same kind',
  },
  quick,
);
