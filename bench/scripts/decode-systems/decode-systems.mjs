// How fast does a decoder generate with a quarter of its experts? Servers of the bundled decoder, whose experts are
// filled with zeros to the size of a real model's, answer the same questions in turn: the defaults, the same without
// the governor, with the network's tables and with those of the last token alone, `--predictor none`, LRU, true tables,
// every expert resident, and `--predictor none` again. Two processes of one kind differ for as long as they run, so all
// are started several times, and the intervals are over the starts.
import { availableParallelism } from 'node:os';
import { basename } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { readMeta } from '../../../dist/trace/trace-file.js';
import { scriptProvenance } from '../../dist/support/provenance.js';
import { writeResult } from '../../dist/support/script-result.js';
import { median } from '../../dist/support/statistics.js';
import { pairedBlocks, textsOf } from '../paired-servers.mjs';
import { countersSince, governorsOf } from '../server-counters.mjs';
import { beladyLoads, checkSame, checkTokens, rowsOf, timesOf, visitsOf } from './figures.mjs';
import { PREDICTOR, padded, traced } from './prepare.mjs';
import { streamedCompletion } from './streamed-completion.mjs';

const HELP = `node bench/scripts/decode-systems/decode-systems.mjs [options]
  --memory-budget 25%    of all servers but the resident one
  --links disk,12GB/s    where experts come from: the disk, or a simulated link of this rate from host memory
  --words FILE           lines of JSON with a "text"; each is asked for its meaning once on every link
  --tokens 64            of an answer, at most
  --ff 8192              width of the experts: 2.5 MB each
  --starts 6             of all servers on each link
  --warm-up 7            questions of a start that are not measured
  --questions 10         of a start, measured
  --threads N
  --work DIR             for the pack and the trace, 470 MB; build/decode-systems by default
  --out NAME             of the result, bench/results/decode-systems.json by default
  --quick                two starts of five questions from disk, to see whether it works`;

const { values } = parseArgs({
  options: {
    help: { type: 'boolean', default: false },
    'memory-budget': { type: 'string', default: '25%' },
    links: { type: 'string' },
    words: { type: 'string', default: 'models/switch-words/words/unknown.jsonl' },
    tokens: { type: 'string', default: '64' },
    ff: { type: 'string', default: '8192' },
    starts: { type: 'string' },
    'warm-up': { type: 'string' },
    questions: { type: 'string' },
    threads: { type: 'string', default: String(availableParallelism()) },
    work: { type: 'string', default: 'build/decode-systems' },
    out: { type: 'string', default: 'decode-systems' },
    quick: { type: 'boolean', default: false },
  },
});
if (values.help) {
  console.log(HELP);
  process.exit(0);
}
const { quick, threads, 'memory-budget': budget } = values;
const links = (values.links ?? (quick ? 'disk' : 'disk,12GB/s')).split(',');
const [starts, warmUp, questions] = Object.entries({
  starts: quick ? 2 : 6,
  'warm-up': quick ? 2 : 7,
  questions: quick ? 3 : 10,
}).map(([name, usual]) => Number(values[name] ?? usual));
const tokens = Number(values.tokens);
if (!(starts >= 2)) throw new Error(`Expected --starts to be 2 or more, found ${values.starts}`);
const ofStart = warmUp + questions;
const words = textsOf(values.words).slice(0, starts * ofStart);
if (words.length < starts * ofStart)
  throw new Error(`${values.words} has ${words.length} of ${starts * ofStart} texts`);

const { pack, expertBytes } = await padded(values.work, Number(values.ff));
const { trace, records } = await traced(values.work, pack, words, tokens);
const { layers, experts: ofLayer, topK, top } = await readMeta(trace);
const shape = { layers: layers.length, experts: ofLayer, topK, top };
const experts = layers.length * ofLayer;

const NONE = ['--predictor', 'none'];
const LRU = [...NONE, '--policy', 'lru'];
const UNGOVERNED = ['--predictor', PREDICTOR, '--governor', 'off'];
const TRUE_TABLES = 'true tables';
/** The flags of each. LRU, true tables and resident are those of `sida bench`. */
const SYSTEMS = {
  defaults: ['--predictor', PREDICTOR],
  ungoverned: UNGOVERNED,
  'token, ungoverned': [...UNGOVERNED, '--hash-function', 'token'],
  none: NONE,
  lru: LRU,
  [TRUE_TABLES]: ['--predictor', trace, '--hash-function', 'replay', '--look-ahead-layers', '0'],
  resident: LRU,
  'none, again': NONE,
};
const NAMES = Object.keys(SYSTEMS);

function flagsOf(name, link) {
  const common = ['--model', pack, '--threads', threads, ...SYSTEMS[name]];
  common.push('--memory-budget', name === 'resident' ? '100%' : budget);
  // All experts are in host memory, so that a transfer waits for the simulated link alone.
  return link === 'disk' ? common : [...common, '--link-bandwidth', link, '--host-budget', '100%'];
}

/** Waits at its first call until every engine has reported its counters: an idle one does so once a second. */
function reports() {
  let reported;
  return () => {
    reported ??= pause(1_200);
    return reported;
  };
}

/** Starts all servers. Returns the figures of each, by its name. */
async function run(link, start) {
  const own = records.slice(start * ofStart, (start + 1) * ofStart);
  // Which server starts first changes, in case that matters.
  const order = NAMES.map((_, i) => NAMES[(i + start) % NAMES.length]);
  const reported = [reports(), reports()];
  const { answers, said } = await pairedBlocks({
    label: `${link}, start ${start + 1} of ${starts}`,
    flags: order.map((name) => flagsOf(name, link)),
    texts: own.map(({ prompt }) => prompt),
    requests: { tokens },
    ask: streamedCompletion,
    ...{ blocks: questions, warmUp, size: 1 },
    before: async (server) => {
      await reported[0]();
      return server.metrics();
    },
    after: async (server, before) => {
      await reported[1]();
      return { ...countersSince(await server.metrics(), before), governor: await governorsOf(server) };
    },
  });
  const by = (name) => order.indexOf(name);
  for (const name of NAMES) checkTokens(`${name}, ${link}`, answers[by(name)], own);
  checkSame(order, answers);
  const read = answers[0].map(({ ids }) => ids.length - 1);
  const visits = own.map((record, i) => visitsOf(record, read[i], shape));
  const [before, measured] = [visits.slice(0, warmUp).flat(), visits.slice(warmUp).flat()];
  const passed = own.slice(warmUp).reduce((sum, { prompt }, i) => sum + prompt.length + read[warmUp + i], 0);
  const figuresOf = (name) => {
    const figures = said[by(name)];
    checkNeeds(name, figures, measured, passed);
    const belady = beladyLoads(before, measured, experts, figures.slots);
    return { ...timesOf(answers[by(name)].slice(warmUp)), ...figures, belady };
  };
  return Object.fromEntries(NAMES.map((name) => [name, figuresOf(name)]));
}

/** Throws where a server ran other experts than the trace holds, or the true tables did not name all of them. */
function checkNeeds(name, { needed, predicted, governor }, measured, passed) {
  const traced = measured.reduce((sum, ids) => sum + ids.length, 0);
  if (needed !== traced) throw new Error(`${name} needed ${needed} experts, ${traced} by the trace`);
  const choices = passed * layers.length * topK;
  if (name === TRUE_TABLES && predicted !== choices)
    throw new Error(`The true tables name ${predicted} of ${choices} choices`);
  if (name === 'defaults' && governor.function !== 'lstm')
    throw new Error(`The defaults predict by ${governor.function}, not by lstm`);
}

const rows = [];
for (const link of links) {
  const found = [];
  for (let start = 0; start < starts; start += 1) found.push(await run(link, start));
  rows.push(...rowsOf(NAMES, found).map((row) => ({ link, ...row })));
}
for (const { link, system, perSecond, overNone } of rows) {
  const source = link === 'disk' ? link : `simulated link of ${link}`;
  const [mean, low, high] = ['mean', 'low', 'high'].map((key) => overNone?.[key].toFixed(2));
  const compared = overNone === null ? '' : `, ${mean} times as fast as none (${low} to ${high})`;
  console.log(`${source}, ${system}: ${median(perSecond).toFixed(1)} tokens/s${compared}`);
}
const result = {
  question: 'How fast does a decoder generate with a quarter of its experts?',
  ...scriptProvenance(),
  ...{ model: 'olmoe-mini', ff: Number(values.ff), expertBytes, experts, words: basename(values.words) },
  ...{ budget, threads: Number(threads), starts, warmUp, questions },
  rows,
};
writeResult(values.out, result, quick);
