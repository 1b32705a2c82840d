// Does prediction pay? Servers of one model answer the same requests in turn: the defaults, `--predictor none`, and
// `--predictor none` started again as a control, over a grid of budgets and links. Two processes of one kind differ for
// as long as they run, so all are started several times, and the intervals are over the starts.

import { readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { basename, join } from 'node:path';
import { hashOfFiles } from '../../dist/checkpoint/identity.js';
import { readManifest } from '../../dist/checkpoint/manifest.js';
import { intervalOf } from '../../dist/evaluation/paired-difference.js';
import { LineProcess } from '../dist/support/line-process.js';
import { hashFunctionModule, LABEL_TRACE_PROCESS, SCRIPTS } from '../dist/support/paths.js';
import { run, sida } from '../dist/support/processes.js';
import { scriptProvenance } from '../dist/support/provenance.js';
import { merged, optionsOf, scratchDirectory, words, writeResult } from '../dist/support/script.js';
import { ServeProcess } from '../dist/support/serve-process.js';
import { mean, median } from '../dist/support/statistics.js';
import { StepProgress } from '../dist/support/step-progress.js';

const HELP = `node bench/scripts/prediction.mjs [options]
  --model DIR…           models/switch-words, or another model with a task or for completions; repeatable
  --memory-budget 10%,25%
  --link disk,12GB/s     experts on disk, or in host memory behind a link of that rate
  --system NAME=FLAGS…   one more server, such as 'lstm=--hash-function lstm'; repeatable
  --true-tables          one more server, whose tables are the recorded routing of what is asked
  --task NAME            classify by this task; without it, completions of --tokens tokens
  --texts models/switch-words/words/known-held-out.jsonl  lines of JSON with a "text", asked in turn
  --tokens 16 --clients 1
  --starts 8             of all servers
  --blocks 15 --block 20 measured blocks of each start, and their requests
  --warm-up 40           blocks before them, not measured
  --threads N
  --quick (--starts 2 --blocks 2 --warm-up 2)  the result goes to build/
  node bench/scripts/prediction.mjs --task category --true-tables`;

const options = optionsOf(HELP);
const { quick, task, tokens, starts, blocks, block: size, clients, 'warm-up': warmUp } = options;
const threads = options.threads ?? availableParallelism();
const models = options.model.length > 0 ? options.model : ['models/switch-words'];
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
  ...(options['true-tables'] && { 'true tables': [] }),
  'none again': ['--predictor', 'none'],
};
const texts = readFileSync(options.texts, 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line).text);
const bodyOf = (text) => (task === undefined ? { prompt: text, max_tokens: tokens } : { task, input: text });
const path = task === undefined ? '/v1/completions' : '/v1/classify';

/** Records the routing of the texts that are asked, and of their answers. Returns the directory of the trace. */
async function traceOf(model) {
  const directory = scratchDirectory();
  const asked = texts.slice(0, Math.min(texts.length, (warmUp + blocks) * size));
  const out = join(directory, 'trace');
  if (task === undefined) {
    const data = join(directory, 'texts.jsonl');
    writeFileSync(data, asked.map((text) => JSON.stringify({ text })).join('\n'));
    const common = words`--template {text} --memory-budget 100% --threads ${threads} --max-new-tokens ${tokens}`;
    await sida([...words`trace ${model} --data ${data} --out ${out}`, ...common]);
    return out;
  }
  const pack = join(directory, 'pack');
  await sida(['convert', model, '--out', pack]);
  const { files, source } = await readManifest(pack);
  const { template, labels } = JSON.parse(readFileSync(join(model, 'sida.json'), 'utf8')).tasks[task];
  const work = {
    ...{ flags: { model: pack, memoryBudget: '100%', threads: String(threads) }, pack, labels, out },
    ...{ fingerprint: hashOfFiles(files), weights: source.weights },
    texts: asked.map((text) => template.replace('{text}', text)),
  };
  await run('node', [LABEL_TRACE_PROCESS], { input: JSON.stringify(work) });
  return out;
}

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

/** Time over that of `none`, less 1: mean and interval over the starts. */
function slower(found, name) {
  const logs = found.map(({ none, [name]: own }) => mean(own.ms.map((ms, i) => Math.log(ms / none.ms[i]))));
  const { mean: middle, low, high } = intervalOf(logs);
  return { mean: Math.expm1(middle), low: Math.expm1(low), high: Math.expm1(high) };
}

const measured = [];
const common = { task: task ?? 'completions', clients, starts, blocks, block: size };
const keyOf = ({ model, budget, link, task: kind, clients: count }) => [model, budget, link, kind, count].join();

function keep(setting) {
  measured.push(setting);
  const settings = merged('prediction', 'settings', measured, keyOf, quick);
  writeResult(
    'prediction',
    {
      question: 'Does prediction pay?',
      control: 'none again: a second server of the same kind',
      settings: settings.sort((a, b) => keyOf(a).localeCompare(keyOf(b), 'en', { numeric: true })),
    },
    quick,
  );
}

for (const model of models) {
  const trace = options['true-tables'] ? await traceOf(model) : undefined;
  if (trace !== undefined) SYSTEMS['true tables'] = ['--predictor', trace];
  const names = Object.keys(SYSTEMS);
  for (const budget of options['memory-budget'].split(',')) {
    for (const link of options.link.split(',')) {
      const rate = link === 'disk' ? words`--host-budget 0` : words`--host-budget 100% --link-bandwidth ${link}`;
      const flags = [...words`--model ${model} --memory-budget ${budget} --threads ${threads}`, ...rate];
      const found = [];
      for (let at = 0; at < starts; at += 1) {
        // Which server starts first changes, in case that matters.
        const order = names.map((_, i) => names[(i + at) % names.length]);
        const label = `${basename(model)}, ${budget}, ${link}, start ${at + 1} of ${starts}`;
        found.push(await start(label, flags, order));
      }
      const rows = names.map((system) => ({
        system,
        msOfBlock: median(found.flatMap((own) => own[system].ms)),
        bytesPerRequest: mean(found.map((own) => own[system].bytes)) / (blocks * size),
        slower: system === 'none' ? null : slower(found, system),
      }));
      keep({ model: basename(model), budget, link, ...common, ...scriptProvenance(), rows });
      for (const row of rows) console.log(JSON.stringify(row));
    }
  }
}
