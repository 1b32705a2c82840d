// Does prediction pay? One server answers the same texts with prediction on, off, and off again as a control, over a
// grid of budgets and links. Two processes of one kind differ by more than prediction does, for as long as they run.

import { readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { basename, join } from 'node:path';
import { hashOfFiles } from '../../dist/checkpoint/identity.js';
import { isPack, readManifest } from '../../dist/checkpoint/manifest.js';
import { readTasks } from '../../dist/checkpoint/tasks.js';
import { intervalOf } from '../../dist/evaluation/paired-difference.js';
import { Template } from '../../dist/text/template.js';
import { labelTraceOf } from '../dist/preparation/traces.js';
import { LineProcess } from '../dist/support/line-process.js';
import { hashFunctionModule, SCRIPTS } from '../dist/support/paths.js';
import { sida } from '../dist/support/processes.js';
import { scriptProvenance } from '../dist/support/provenance.js';
import { merged, optionsOf, scratchDirectory, words, writeResult } from '../dist/support/script.js';
import { ServeProcess } from '../dist/support/serve-process.js';
import { mean, median } from '../dist/support/statistics.js';

const HELP = `node bench/scripts/prediction.mjs [options]
  --model DIR…           models/switch-words, or another model or pack with a task or for completions; repeatable
  --memory-budget 10%,25%
  --link disk,12GB/s     experts on disk, or in host memory behind a link of that rate
  --true-tables          one more server, whose tables are the recorded routing of what is asked
  --right SHARE          and one whose tables are as often right, such as 80%
  --task NAME            classify by this task; without it, completions of --tokens tokens
  --texts models/switch-words/words/known-held-out.jsonl  lines of JSON with a "text" or the task's fields
  --most-texts 400       of the file, asked in turn
  --tokens 16 --clients 1
  --starts 3 --seconds 45  starts of each server, and the time of all of them together, in whole segments
  --threads N             as many as cores; with a simulated link one less, which copies
  --new                  no settings that were measured before in this way
  --quick (--starts 2 --seconds 4 --most-texts 100)  the result goes to build/
  node bench/scripts/prediction.mjs --task category --true-tables`;

const BLOCK_MS = 500;
const WARM_UP_MS = 2000;
/** Passes in which a server measures what its tables save; slow ones are not many in two seconds. */
const WARM_UP_PASSES = 128;
/** Should this script end early, prediction is on again after this time. */
const OFF_SECONDS = 600;

const options = optionsOf(HELP);
const { quick, task, tokens, starts, seconds, clients } = options;
const cores = availableParallelism();
/** A simulated link copies with a core, which a GPU's link would not take from computing. */
const threadsFor = (link) => options.threads ?? (link === 'disk' ? cores : Math.max(1, cores - 1));
const models = options.model.length > 0 ? options.model : ['models/switch-words'];
if (!(starts >= 2)) throw new Error(`expected --starts to be 2 or more, found ${starts}`);

const texts = readFileSync(options.texts, 'utf8')
  .trim()
  .split('\n')
  .slice(0, options['most-texts'])
  .map((line) => JSON.parse(line))
  .map(({ label, ...fields }) => fields.text ?? fields);
const bodyOf = (text) => (task === undefined ? { prompt: text, max_tokens: tokens } : { task, input: text });
const path = task === undefined ? '/v1/completions' : '/v1/classify';

/** Records the routing of the texts that are asked, and of their answers. Returns the directory of the trace. */
async function traceOf(model) {
  const directory = scratchDirectory();
  if (task === undefined) {
    const [data, out] = ['texts.jsonl', 'trace'].map((name) => join(directory, name));
    writeFileSync(data, texts.map((text) => JSON.stringify({ text })).join('\n'));
    const common = words`--template {text} --memory-budget 100% --threads ${cores} --max-new-tokens ${tokens}`;
    await sida([...words`trace ${model} --data ${data} --out ${out}`, ...common]);
    return out;
  }
  const pack = isPack(model) ? model : join(directory, 'pack');
  if (pack !== model) await sida(['convert', model, '--out', pack]);
  const { files, source } = await readManifest(pack);
  const { template, labels } = readTasks(model)[task];
  const filled = new Template(template);
  const asked = texts.map((text) => filled.render(filled.values(text, 'text')));
  const prepared = { pack, fingerprint: hashOfFiles(files), weights: source.weights };
  return labelTraceOf(prepared, { name: task, labels }, asked, {
    work: 'build/bench',
    threads: cores,
    onStep: console.error,
  });
}

const COUNTS = {
  bytes: 'sida_experts_moved_bytes_total',
  prefetched: 'sida_experts_found_total{found="prefetched"}',
  late: 'sida_experts_found_total{found="late"}',
};

/** The rounds of one start by segment: three, in which each state has each place in turn. */
async function start(flags, setting, first) {
  const server = await ServeProcess.start(flags);
  const client = new LineProcess('the clients', 'node', [`${SCRIPTS}rest/clients.mjs`]);
  const ask = async (bodies) => (await client.ask({ port: server.port, path, clients, bodies })).wallMs / bodies.length;
  const next = (count) => Array.from({ length: count }, () => bodyOf(texts[setting.asked++ % texts.length]));
  const counts = async () => {
    const all = await server.metrics();
    return Object.values(COUNTS).map((name) => all.get(name));
  };
  /** Milliseconds and counts a request. */
  const block = async (state, warmUp, bodies) => {
    const body = JSON.stringify(state === 'on' ? { enabled: true } : { enabled: false, seconds: OFF_SECONDS });
    const headers = { 'content-type': 'application/json' };
    const { ok } = await fetch(`${server.url}/admin/predictor`, { method: 'PUT', headers, body });
    if (!ok) throw new Error('prediction was not switched');
    // Tables are under way, and memory holds the experts of the other state.
    await ask(warmUp);
    const before = await counts();
    const ms = await ask(bodies);
    return [ms, ...(await counts()).map((after, i) => (after - before[i]) / bodies.length)];
  };
  try {
    const [started, least] = [performance.now(), Math.max(4, 2 * clients)];
    const latencies = [];
    while (performance.now() - started < WARM_UP_MS || latencies.length * least < WARM_UP_PASSES * clients) {
      latencies.push(await ask(next(least)));
    }
    const begin = performance.now();
    setting.block ??= Math.max(least, Math.round(BLOCK_MS / median(latencies)));
    const segments = [];
    do {
      const rounds = [{}, {}, {}];
      for (const [at, round] of rounds.entries()) {
        const [warmUp, bodies] = [next(Math.ceil(setting.block / 2)), next(setting.block)];
        const order = ['on', 'off', 'again'].map((_, i, states) => states[(i + at) % 3]);
        // `on` comes before `off` in every other segment.
        if ((first + segments.length) % 2 === 1) order.reverse();
        for (const state of order) round[state] = await block(state, warmUp, bodies);
      }
      segments.push(rounds);
    } while (performance.now() - begin < (1000 * seconds) / starts);
    return segments;
  } finally {
    await Promise.all([client.close(), server.stop()]);
  }
}

function rowOf(system, segments) {
  const at = (state) =>
    Object.fromEntries(
      ['ms', ...Object.keys(COUNTS)].map((name, i) => [name, mean(segments.flat().map((round) => round[state][i]))]),
    );
  /** A ratio less 1 and its interval over the segments of all starts. `logOf`: its logarithm in a round. */
  const change = (logOf) => {
    const interval = intervalOf(segments.map((rounds) => mean(rounds.map(logOf))));
    return Object.fromEntries(Object.entries(interval).map(([name, log]) => [name, Math.expm1(log)]));
  };
  const { log } = Math;
  const slower = change(({ on, off, again }) => log(on[0]) - (log(off[0]) + log(again[0])) / 2);
  const control = change(({ off, again }) => log(again[0]) - log(off[0]));
  return { system, segments: segments.length, on: at('on'), off: at('off'), slower, control };
}

const measured = [];
const keyOf = ({ model, budget, link, task: kind, clients: count }) => [model, budget, link, kind, count].join();
const sameThreads = ({ link, threads = cores }) => threads === threadsFor(link);
const known = () => merged('prediction', 'settings', measured, keyOf, quick);
const done = new Set(known().filter(sameThreads).map(keyOf));

function keep(setting) {
  measured.push(setting);
  const settings = known().sort((a, b) => keyOf(a).localeCompare(keyOf(b), 'en', { numeric: true }));
  writeResult('prediction', { question: 'Does prediction pay?', settings }, quick);
}

for (const model of models) {
  let trace;
  for (const budget of options['memory-budget'].split(',')) {
    for (const link of options.link.split(',')) {
      const threads = threadsFor(link);
      const about = { model: basename(model), budget, link, task: task ?? 'completions', clients, threads };
      if (options.new && done.has(keyOf(about))) continue;
      if (options['true-tables']) trace ??= await traceOf(model);
      const rate = link === 'disk' ? words`--host-budget 0` : words`--host-budget 100% --link-bandwidth ${link}`;
      // Texts come again, and their prompts are computed again.
      const cache = words`--threads ${threads} --prefix-cache off`;
      const flags = [...words`--model ${model} --memory-budget ${budget}`, ...cache, ...rate];
      const setting = { asked: 0 };
      const rows = [];
      const systems = { default: {}, 'true tables': { SIDA_HASH_FUNCTION_MODULE: hashFunctionModule('replay') } };
      if (trace === undefined) delete systems['true tables'];
      else if (options.right !== undefined) {
        const SIDA_REPLAY_RIGHT = Number.parseFloat(options.right) / 100;
        systems[`true in ${options.right}`] = { ...systems['true tables'], SIDA_REPLAY_RIGHT };
      }
      for (const [system, environment] of Object.entries(systems)) {
        // The server inherits it.
        delete process.env.SIDA_HASH_FUNCTION_MODULE;
        delete process.env.SIDA_REPLAY_RIGHT;
        Object.assign(process.env, environment);
        const own = system === 'default' ? flags : [...flags, '--predictor', trace];
        const segments = [];
        for (let at = 0; at < starts; at += 1) segments.push(...(await start(own, setting, segments.length)));
        rows.push(rowOf(system, segments));
        console.log(JSON.stringify({ ...about, ...rows.at(-1) }));
      }
      keep({ ...about, starts, block: setting.block, ...scriptProvenance(), rows });
    }
  }
}
