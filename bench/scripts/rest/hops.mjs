// Where does the time of a lone classify request over REST go? One client, one request at a time, to `sida serve` with
// switch-mini resident; stamps.mjs notes when it passes from process to process and from thread to thread.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { availableParallelism, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { convertCheckpoint } from '../../../dist/checkpoint/converter.js';
import { clockMs } from '../../../dist/clock.js';
import { MINI_DIRECTORY } from '../../dist/support/paths.js';
import { scriptProvenance } from '../../dist/support/provenance.js';
import { writeResult } from '../../dist/support/script-result.js';
import { ServeProcess } from '../../dist/support/serve-process.js';
import { sst2Texts } from '../../dist/support/sst2.js';
import { quantile } from '../../dist/support/statistics.js';

const HELP = `node bench/scripts/rest/hops.mjs [options]
  --requests 2000
  --pause 0              milliseconds between an answer and the next request
  --threads N
  --quick                fewer requests; the result goes to build/
Prints a line for each place where a request changes hands: milliseconds since the place before (median), and since the
client began. Requests that lack a stamp are left out.
The result is bench/results/rest-hops.json.`;

const { values } = parseArgs({
  options: {
    help: { type: 'boolean', default: false },
    quick: { type: 'boolean', default: false },
    requests: { type: 'string' },
    pause: { type: 'string', default: '0' },
    threads: { type: 'string', default: String(availableParallelism()) },
  },
});
if (values.help) {
  console.log(HELP);
  process.exit(0);
}
const { quick, threads } = values;
const requests = Number(values.requests ?? (quick ? 500 : 2000));
/** At both ends: the last stamps of each thread stay unwritten, and the first requests find cold caches. */
const EDGE = 200;

const agent = new Agent({ keepAlive: true, maxSockets: 1 });

function classify(port, text) {
  const body = JSON.stringify({ task: 'sst2', input: text });
  const stamps = [['client: begins', clockMs()]];
  const stamp = (place) => stamps.push([place, clockMs()]);
  return new Promise((done, reject) => {
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
    const call = request({ agent, port, host: '127.0.0.1', path: '/v1/classify', method: 'POST', headers });
    call.once('error', reject);
    call.once('response', (response) => {
      stamp('client: headers received');
      response.once('error', reject);
      response.once('end', () => {
        stamp('client: answer received');
        if (response.statusCode === 200) done(stamps);
        else reject(new Error(`${response.statusCode}`));
      });
      response.resume();
    });
    call.end(body);
    stamp('client: request written');
  });
}

function readStamps(dir) {
  const lines = readdirSync(dir).flatMap((name) => readFileSync(join(dir, name), 'utf8').trim().split('\n'));
  return lines.flatMap((line) => JSON.parse(line)).sort(([, a], [, b]) => a - b);
}

/** For each place of a request its time since the client began; of several stamps of one name the last. */
function timesOf(client, stamps) {
  const [[, begin]] = client;
  const times = new Map();
  const passes = new Map();
  let opened;
  for (const [place, ms] of [...client, ...stamps].sort(([, a], [, b]) => a - b)) {
    // A request has several passes and native calls: their times are summed up.
    if (place.endsWith(' begins') && place !== 'client: begins') {
      if (!times.has(place)) times.set(place, ms - begin);
      opened = { ...opened, [place]: ms };
    } else if (opened?.[place.replace(/ ends$/, ' begins')]) {
      passes.set(place, (passes.get(place) ?? 0) + ms - opened[place.replace(/ ends$/, ' begins')]);
      times.set(place, ms - begin);
    } else if (place !== 'hash building: awake' || !times.has('hash building: batch queued')) {
      times.set(place, ms - begin);
    }
  }
  return { times, passes };
}

function within(all, begin, end) {
  const first = lowest(all, begin);
  return all.slice(first, lowest(all, end));
}

/** The requests whose number of places is the most frequent. */
function largestGroup(found) {
  const groups = new Map();
  for (const each of found) {
    const { size } = each.times;
    groups.set(size, [...(groups.get(size) ?? []), each]);
  }
  return [...groups.values()].sort((a, b) => b.length - a.length)[0];
}

function lowest(all, ms) {
  let [low, high] = [0, all.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (all[middle][1] < ms) low = middle + 1;
    else high = middle;
  }
  return low;
}

const dir = mkdtempSync(join(tmpdir(), 'sida-hops-'));
try {
  const pack = join(dir, 'switch-mini');
  await convertCheckpoint({ model: MINI_DIRECTORY, out: pack, experts: 'auto', dense: 'auto' });
  const notes = join(dir, 'stamps');
  mkdirSync(notes);
  process.env.SIDA_STAMPS = notes;
  process.env.NODE_OPTIONS = `--import ${resolve(import.meta.dirname, 'stamps.mjs')}`;
  // biome-ignore format: a command line
  const server = await ServeProcess.start(['--model', pack, '--memory-budget', '100%', '--predictor', 'none', '--threads', threads]);
  const sent = [];
  try {
    const texts = sst2Texts();
    for (let i = 0; i < requests + 2 * EDGE; i += 1) {
      sent.push(await classify(server.port, texts[i % texts.length]));
      if (values.pause !== '0') await pause(Number(values.pause));
    }
  } finally {
    agent.destroy();
    await server.stop();
  }
  const all = readStamps(notes);
  const found = sent
    .slice(EDGE, -EDGE)
    .map((client) => timesOf(client, within(all, client[0][1], client.at(-1)[1])));
  // Few requests take another way, with other places.
  const whole = largestGroup(found);
  const median = (of) => quantile(whole.map(of), 0.5);
  const places = [...whole[0].times.keys()]
    .map((place) => ({ place, sinceBeginMs: median(({ times }) => times.get(place)) }))
    .sort((a, b) => a.sinceBeginMs - b.sinceBeginMs);
  const hops = places.map((each, i) => ({
    ...each,
    ms: i === 0 ? 0 : median(({ times }) => times.get(each.place) - times.get(places[i - 1].place)),
  }));
  const sums = Object.fromEntries(
    [...whole[0].passes.keys()].map((place) => [place, median(({ passes }) => passes.get(place))]),
  );
  for (const { place, ms, sinceBeginMs } of hops)
    console.log(`${ms.toFixed(3)}  ${sinceBeginMs.toFixed(3)}  ${place}`);
  console.log(`${whole.length} of ${requests} requests`, sums);
  const about = { question: 'Where does the time of a lone request over REST go?', ...scriptProvenance() };
  writeResult('rest-hops', { ...about, threads: Number(threads), requests: whole.length, hops, sums }, quick);
} finally {
  rmSync(dir, { recursive: true, force: true });
}
