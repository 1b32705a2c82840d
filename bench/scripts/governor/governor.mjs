// Are the defaults ever slower than doing without prediction (P17)? Four servers of one model answer the same requests
// in turn: the defaults, `--predictor none`, and two controls: prediction that nothing governs, and `--predictor none`
// started again, since two processes of one kind differ, too. Each block of requests goes to all four, in an order that
// turns round, so that a drift of the machine favours none.
import { existsSync, readFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { availableParallelism } from 'node:os';
import { basename } from 'node:path';
import { parseArgs } from 'node:util';
import { intervalOf } from '../../../dist/evaluation/paired-difference.js';
import { scriptProvenance } from '../../dist/support/provenance.js';
import { writeResult } from '../../dist/support/script-result.js';
import { ServeProcess } from '../../dist/support/serve-process.js';
import { StepProgress } from '../../dist/support/step-progress.js';

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
const texts = readFileSync(values.texts, 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line).text);
const [blocks, warmUp, size] = [values.blocks, values['warm-up'], values.block].map(Number);

const SERVERS = [
  { name: 'defaults', args: [] },
  { name: 'none', args: ['--predictor', 'none'] },
  { name: 'ungoverned', args: ['--governor', 'off'] },
  { name: 'again', args: ['--predictor', 'none'] },
];

const [path, bodyOf] =
  values.task === undefined
    ? ['/v1/completions', (text) => ({ prompt: text, max_tokens: Number(values.tokens) })]
    : ['/v1/classify', (text) => ({ task: values.task, input: text })];

function ask({ port }, agent, text) {
  const body = JSON.stringify(bodyOf(text));
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
    const call = request({ agent, port, host: '127.0.0.1', path, method: 'POST', headers });
    call.once('error', reject).once('response', (response) => {
      let answer = '';
      response.setEncoding('utf8').on('data', (piece) => {
        answer += piece;
      });
      response.once('error', reject).once('end', () => {
        if (response.statusCode === 200) resolve();
        else reject(new Error(`${response.statusCode} ${answer}`));
      });
    });
    call.end(body);
  });
}

/** An idle connection is given up before its server closes it, and no answer takes as long. */
const SERVER_KEEPS_MS = 4_000;

/** Milliseconds of each block, by server. */
async function blocksOf(servers, agent, progress) {
  const times = servers.map(() => []);
  for (let block = 0; block < warmUp + blocks; block += 1) {
    const asked = Array.from({ length: size }, (_, i) => texts[(block * size + i) % texts.length]);
    // Each server is as often before each other as behind it.
    const turned = servers.map((_, i) => (i + block) % servers.length);
    for (const at of Math.floor(block / servers.length) % 2 === 0 ? turned : turned.reverse()) {
      const begin = performance.now();
      for (const text of asked) await ask(servers[at], agent, text);
      if (block >= warmUp) times[at].push(performance.now() - begin);
    }
    progress.step();
  }
  return times;
}

/** The time of `own` over that of `other`, less 1, by pairs of blocks. */
function slower(own, other) {
  const { mean, low, high } = intervalOf(own.map((ms, i) => Math.log(ms / other[i])));
  return Object.fromEntries(Object.entries({ mean, low, high }).map(([key, log]) => [key, Math.expm1(log)]));
}

async function measure(budget) {
  const common = ['--model', values.model, '--memory-budget', budget, '--threads', values.threads];
  if (values['link-bandwidth'] !== undefined) common.push('--link-bandwidth', values['link-bandwidth']);
  const agent = new Agent({ keepAlive: true, maxSockets: 1, timeout: SERVER_KEEPS_MS });
  const servers = [];
  try {
    for (const { args } of SERVERS) servers.push(await ServeProcess.start([...common, ...args]));
    const progress = new StepProgress(`${basename(values.model)} with ${budget}`, warmUp + blocks);
    const [defaults, none, ungoverned, again] = await blocksOf(servers, agent, progress);
    const governor = await (await fetch(`${servers[0].url}/admin/predictor`)).json();
    return {
      budget,
      requests: blocks * size,
      blocks,
      defaults: slower(defaults, none),
      ungoverned: slower(ungoverned, none),
      again: slower(again, none),
      governor,
    };
  } finally {
    agent.destroy();
    await Promise.all(servers.map((server) => server.stop()));
  }
}

const rows = [];
for (const budget of values['memory-budget'].split(',')) rows.push(await measure(budget));
const percent = (share) => `${(100 * share).toFixed(1)} %`;
const shown = ({ mean, low, high }) => `${percent(mean)} (${percent(low)} to ${percent(high)})`;
for (const { budget, defaults, ungoverned, again } of rows) {
  console.log(
    `${budget}: slower than none by ${shown(defaults)}; ungoverned by ${shown(ungoverned)}; none again by ${shown(again)}`,
  );
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
