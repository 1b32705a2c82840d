// How near does a pass whose reads are known come to max(compute, bytes moved / disk bandwidth), and how long does a
// demand wait for prefetches?
//   node bench/scripts/disk/disk-tier.mjs --model switch-mini|switch-base-8 [--dir DIR] [--rounds 3] [--keep]
// `block by block` reads as the first version did: one request at a time, a whole block each; `whole blocks` adds the
// measured depth; `planned` pieces and shared reads. With --dir the pack there is used again (2.4 GB).
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { convertCheckpoint } from '../../../dist/checkpoint/converter.js';
import { loadAddon } from '../../../dist/native/addon.js';
import { formatBytes } from '../../../dist/text/bytes.js';
import { buildNativeBench, runNativeBench } from '../../dist/support/native-bench.js';
import { makeSwitchCheckpoint, run } from '../../dist/support/processes.js';
import { scriptProvenance } from '../../dist/support/provenance.js';
import { writeResult } from '../../dist/support/script-result.js';
import { median } from '../../dist/support/statistics.js';

const { values } = parseArgs({
  options: {
    dir: { type: 'string' },
    rounds: { type: 'string', default: '3' },
    model: { type: 'string', default: 'switch-mini' },
    keep: { type: 'boolean', default: false },
  },
});
const dir = values.dir ?? mkdtempSync(join(tmpdir(), 'sida-bench-'));
mkdirSync(dir, { recursive: true });
const addon = loadAddon();
const PROCESS = new URL('disk-tier-process.mjs', import.meta.url).pathname;
const DEMAND_SECONDS = 6;
const BANDWIDTH_SECONDS = 0.5;
const SHARES = [0, 0.125, 0.25, 0.5, 0.75];

const MODELS = {
  'switch-mini': { sentences: 100, limits: { maxBatchTokens: 256, kvTokens: 384 } },
  'switch-base-8': { sentences: 4, limits: { maxBatchTokens: 256, kvTokens: 384 } },
};

async function packOf(name) {
  const pack = join(dir, `${name}.pack`);
  if (existsSync(pack)) return pack;
  if (name === 'switch-mini') {
    await convertCheckpoint({ model: 'models/switch-mini', out: pack, experts: 'auto', dense: 'auto' });
    return pack;
  }
  const model = join(dir, name);
  await makeSwitchCheckpoint(model, ['--experts', '8']);
  await convertCheckpoint({ model, out: pack, experts: 'auto', dense: 'auto' });
  rmSync(model, { recursive: true });
  return pack;
}

async function runPasses(work) {
  return JSON.parse(await run('node', [PROCESS], { input: JSON.stringify(work) }));
}

const demandBench = buildNativeBench('demand_latency_bench');

function demandLatency(pack, reads) {
  const { readDepth = 0, readChunkBytes = 0 } = reads;
  return runNativeBench(demandBench, [pack, DEMAND_SECONDS, readDepth, readChunkBytes])[0];
}

const mediansOf = (samples) =>
  Object.fromEntries(
    Object.entries(samples[0])
      .filter(([, value]) => typeof value === 'number')
      .map(([key]) => [key, median(samples.map((sample) => sample[key]))]),
  );

async function measure(name) {
  const { sentences, limits: sizes } = MODELS[name];
  const limits = { ...sizes, threads: availableParallelism() };
  const pack = await packOf(name);
  const plan = addon.planMemory({ pack }, limits);
  const systems = {
    'block by block': { readDepth: 1, readChunkBytes: plan.slot },
    'whole blocks': { readChunkBytes: plan.slot },
    planned: {},
  };
  const budgetOf = (share) =>
    Math.max(plan.smallest, plan.fixed + Math.floor(share * plan.experts) * plan.slot);
  const work = { pack, sentences, limits };
  const { trace } = await runPasses({ ...work, budgetBytes: plan.resident });
  const setups = SHARES.flatMap((share) => Object.keys(systems).map((system) => ({ share, system })));
  const samples = setups.map(() => []);
  const residents = [];
  const demands = Object.fromEntries(Object.keys(systems).map((system) => [system, []]));
  for (let round = 0; round < Number(values.rounds); round++) {
    const resident = await runPasses({ ...work, budgetBytes: plan.resident, trace });
    residents.push(resident);
    for (const [i, { share, system }] of setups.entries()) {
      // Before and after: the disk is shared, and its rate is what the bound rests on.
      const rate = () =>
        addon.measureDiskSpeed(join(pack, 'experts.sida'), plan.slot, BANDWIDTH_SECONDS).best;
      const before = rate();
      const sample = await runPasses({
        ...work,
        budgetBytes: budgetOf(share),
        reads: systems[system],
        trace,
      });
      const bandwidth = (before + rate()) / 2;
      if (sample.digest !== resident.digest)
        throw new Error(`${name}, ${share}, ${system}: the answers differ`);
      const boundMs = Math.max(resident.wallMs, (sample.bytesMoved / bandwidth) * 1000);
      const { depth, chunkBytes } = sample.disk[0];
      samples[i].push({
        ...sample,
        depth,
        pieceBytes: chunkBytes,
        bandwidth,
        residentMs: resident.wallMs,
        boundMs,
        overBound: sample.wallMs / boundMs,
      });
      console.error(
        `${name}, round ${round + 1}, ${share * 100} %, ${system}: ${sample.wallMs.toFixed(0)} ms, bound ${boundMs.toFixed(0)} ms ` +
          `(compute ${resident.wallMs.toFixed(0)}), ${(sample.wallMs / boundMs).toFixed(2)}x, ${formatBytes(sample.bytesMoved)} at ${(bandwidth / 1e9).toFixed(2)} GB/s, depth ${depth}, chunk ${chunkBytes >> 10} KiB, reads ${sample.diskReads}, overtakes ${sample.overtakes}`,
      );
    }
    for (const [system, reads] of Object.entries(systems)) demands[system].push(demandLatency(pack, reads));
  }
  return {
    model: name,
    sentences,
    slotBytes: plan.slot,
    experts: plan.experts,
    residentMs: median(residents.map(({ wallMs }) => wallMs)),
    runs: setups.map((setup, i) => ({
      ...setup,
      ...mediansOf(samples[i]),
      overBoundOfRounds: samples[i].map(({ overBound }) => overBound),
    })),
    demands: Object.entries(demands).map(([system, all]) => ({
      system,
      idle: mediansOf(all.map(({ idle }) => idle)),
      busy: mediansOf(all.map(({ busy }) => busy)),
    })),
  };
}

try {
  const model = values.model;
  const result = {
    question: 'How near does a pass whose reads are known come to the bound of compute and disk?',
    ...scriptProvenance(),
    rounds: Number(values.rounds),
    ...(await measure(model)),
  };
  writeResult(`disk-tier-${model}`, result);
} finally {
  if (!values.keep && values.dir === undefined) rmSync(dir, { recursive: true, force: true });
}
