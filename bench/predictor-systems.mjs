// Systems side by side on one pack: each run in a process of its own, round by round, so that a slow minute of the
// machine falls on all alike; then the ratios of P5 to P7, P9 and P12.
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { availableParallelism, cpus, totalmem } from 'node:os';
import { basename, join } from 'node:path';
import { diskRates } from '../dist/bench/link-rates.js';
import { packFingerprint } from '../dist/checkpoint/identity.js';
import { readManifest } from '../dist/checkpoint/manifest.js';
import { formatBytes } from '../dist/config/bytes.js';
import { resolveServeOptions } from '../dist/config/resolve.js';
import { loadAddon } from '../dist/native/addon.js';
import { writeResult } from './bench-result.mjs';
import { staticHotLoads } from './static-hot.mjs';

export const LINKS = {
  disk: { hostBudget: '0' },
  // All experts in host memory, so that the simulated link alone is what a transfer waits for.
  'simulated link': { hostBudget: '100%', linkBandwidth: '12GB/s' },
};
export const SIMULATED_BANDWIDTH = 12e9;
export const POLICIES = ['lru', 'fifo', 'lfu', 'lifo'];

/** Options of `sida serve` that make a system; `predictor` and `trace` are directories. */
export function systemOptions(name, { predictor, trace }) {
  const policy = 'farthest-next-use';
  switch (name) {
    case 'resident':
      return { policy: 'lru', predictor: 'none' };
    case 'replay':
      return { policy, predictor: trace, hashFunction: 'replay' };
    case 'graph+lstm':
      return { policy, predictor, hashFunction: 'lstm', refine: 'graph' };
    case 'lstm':
      return { policy, predictor, hashFunction: 'lstm', refine: 'none' };
    case 'token':
    case 'shuffled':
      return { policy, predictor, hashFunction: name, refine: 'none' };
    default:
      return { policy: name.replace('none, ', ''), predictor: 'none' };
  }
}

export function machine() {
  return {
    commit: execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim(),
    machine: `${cpus()[0].model}, ${availableParallelism()} cores, ${formatBytes(totalmem())}`,
    node: process.version,
    isa: loadAddon().cpuFeatures().isa,
  };
}

/** The command of this process; of paths only the names. */
export function commandText(file) {
  const args = process.argv.slice(2).map((arg) => (arg.includes('/') ? basename(arg) : arg));
  return ['node', `bench/${file}`, ...args].join(' ');
}

export const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

/** `sida serve`'s options as the engine gets them. */
export function engineConfig(flags) {
  const { batchWait, linkLatency, refine, ...options } = resolveServeOptions({ flags, env: {} });
  return { ...options, batchWaitMs: batchWait, linkLatencyMs: linkLatency, refine: refine === 'graph' };
}

function runOnce(setup, { pack, fingerprint, texts, labels, predictor, trace, engine }) {
  const { system, share, lookahead, link, warmUp, batch } = setup;
  const config = engineConfig({
    model: pack,
    memoryBudget: `${share * 100}%`,
    lookahead: String(lookahead),
    ...LINKS[link],
    ...systemOptions(system, { predictor, trace }),
    ...engine,
  });
  const some = setup.sentences === undefined ? texts : texts.slice(0, setup.sentences);
  const child = spawnSync('node', ['bench/predictor-process.mjs'], {
    input: JSON.stringify({ config, pack, fingerprint, texts: some, labels, warmUp, batch }),
    encoding: 'utf8',
    maxBuffer: 1 << 28,
  });
  if (child.status !== 0) throw new Error(`${JSON.stringify(setup)}: ${child.stderr}`);
  const result = JSON.parse(child.stdout);
  const expected = { 'graph+lstm': 'lstm' }[system] ?? system;
  if (config.predictor !== 'none' && result.hashFunction !== expected) {
    throw new Error(`${system} did not open: ${result.hashFunction}, ${result.warnings.join('; ')}`);
  }
  return result;
}

/** Sentences whose label scores are not the very bits of the reference. */
function differing(scores, reference, labels) {
  const [a, b] = [Buffer.from(scores, 'base64'), Buffer.from(reference, 'base64')];
  const bytes = labels * 8;
  let count = 0;
  for (let at = 0; at < Math.min(a.length, b.length); at += bytes) {
    if (!a.subarray(at, at + bytes).equals(b.subarray(at, at + bytes))) count += 1;
  }
  return count;
}

/** Medians of the rounds, number by number. */
function summary(samples) {
  const entries = Object.entries(samples[0]).map(([key, value]) => {
    const values = samples.map((sample) => sample[key]);
    if (typeof value === 'number') return [key, median(values)];
    return [key, key === 'tables' ? summary(values) : value];
  });
  return Object.fromEntries(entries);
}

/** Adds to each run what the targets speak of. */
function judge(runs, rates) {
  for (const run of runs) {
    const reference = (link) =>
      runs.find((other) => other.system === 'resident' && other.link === link && other.batch === run.batch);
    const { link, share, sentences } = run;
    const bandwidth = link === 'disk' ? rates.sequential : SIMULATED_BANDWIDTH;
    const perExpert = link === 'disk' ? rates.experts : SIMULATED_BANDWIDTH;
    const others = runs.filter(
      (other) =>
        other.link === link &&
        other.share === share &&
        other.batch === run.batch &&
        other.system.startsWith('none'),
    );
    const bound = (rate) => Math.max(reference(link).wallMs, (run.bytesMoved / rate) * 1000);
    const least = Math.min(
      ...others.map(({ bytesMoved }) => bytesMoved),
      ...(run.staticHotBytes === undefined ? [] : [run.staticHotBytes]),
    );
    Object.assign(run, {
      perSecond: (1000 * sentences) / run.wallMs,
      overResident: run.wallMs / reference(link).wallMs,
      // P5, by the disk read in a row, and by the disk read expert by expert.
      overBound: run.wallMs / bound(bandwidth),
      overExpertBound: run.wallMs / bound(perExpert),
      ...(share < 1 && { overBelady: run.bytesMoved / run.beladyBytes }), // P6
      ...(Number.isFinite(least) &&
        least > 0 && {
          overBestPolicy: run.bytesMoved / least, // P7
          beladyOverBestPolicy: run.beladyBytes / least,
        }),
      hashBuilding: run.tables.seconds / run.passSeconds, // P9
    });
  }
}

/**
 * Runs `setups` ({system, share, lookahead, link, warmUp}; optional: `batch` sentences a batch, only the first
 * `sentences`) `rounds` times and writes bench/results/<name>.json. The first resident setup is the reference of all
 * others.
 */
export async function measureSystems({ name, about, setups, rounds, work, quick = false }) {
  const { pack, texts, labels } = work;
  const fingerprint = packFingerprint((await readManifest(pack)).files);
  const samples = setups.map(() => []);
  const rates = [];
  const references = setups.findIndex(({ system }) => system === 'resident');
  let reference;
  for (let round = 0; round < rounds; round++) {
    for (const [i, setup] of setups.entries()) {
      if (i % 8 === 0) rates.push(diskRates(pack, work.slotBytes));
      const { scores, ...sample } = runOnce(setup, { ...work, fingerprint });
      if (i === references && reference === undefined) reference = scores;
      samples[i].push({ ...sample, differing: differing(scores, reference, labels.length) });
      const { system, share, lookahead, link } = setup;
      const { passP50Ms, bytesMoved, differing: wrong } = samples[i].at(-1);
      console.error(
        `round ${round + 1}/${rounds}, ${i + 1}/${setups.length}: ${link}, ${share * 100} %, look-ahead ${lookahead}, ${system}: ` +
          `${passP50Ms.toFixed(2)} ms, ${formatBytes(bytesMoved)} moved, ${wrong} differ`,
      );
    }
  }
  const runs = setups.map((setup, i) => ({
    ...setup,
    ...summary(samples[i]),
    differing: samples[i].reduce((sum, sample) => sum + sample.differing, 0),
    wallMsOfRounds: samples[i].map(({ wallMs }) => wallMs),
  }));
  const disk = Object.fromEntries(
    ['sequential', 'experts'].map((key) => [key, median(rates.map((r) => r[key]))]),
  );
  const needed = work.hotTrace && (await addStaticHot(runs, work));
  judge(runs, disk);
  const comparisons = runs.length * rounds;
  const result = {
    ...about,
    ...machine(),
    rounds,
    sentences: texts.length,
    diskBytesPerSecond: disk,
    simulatedLinkBytesPerSecond: SIMULATED_BANDWIDTH,
    predictor: predictorAbout(work.predictor),
    experts: runs[0].experts,
    slotBytes: runs[0].slotBytes,
    neededInTrace: needed,
    comparisons,
    differing: runs.reduce((sum, { differing: count }) => sum + count, 0),
    runs,
  };
  console.error(`${result.differing} sentences differ over ${comparisons} runs`);
  writeResult(name, result, quick);
  return result;
}

/** Bytes that a static choice of experts, made from `hotTrace`, would have moved; returns the experts needed. */
async function addStaticHot(runs, { trace, hotTrace, texts }) {
  const slotCounts = [...new Set(runs.map(({ slots }) => slots))];
  const hot = await staticHotLoads(trace, hotTrace, texts.length, slotCounts);
  for (const run of runs) {
    const loads = hot.loads[slotCounts.indexOf(run.slots)];
    if (run.share < 1) run.staticHotBytes = loads * run.slotBytes;
  }
  return hot.needed;
}

/** What a predictor was trained on, without the place where it lies. */
function predictorAbout(directory) {
  const file = join(directory, 'sida-predictor.json');
  if (!existsSync(file)) return undefined;
  const { trainedOn, options, heldOut } = JSON.parse(readFileSync(file, 'utf8'));
  return { trainedOn, options, heldOut };
}
