// What does ordering by expert overlap save? Real requests of mixed tasks in a closed loop: arrival order, overlap with
// two bounds on being passed over, and overlap told wrong experts, one after the other in processes of their own, round
// by round.
//   node bench/batch-order.mjs [--rounds 3] [--requests 256] [--part 1/9]
// A part measures every ninth setup and leaves the others' results as they are.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { engineConfig } from '../dist/bench/engine-config.js';
import { median } from '../dist/bench/statistics.js';
import { convertCheckpoint } from '../dist/checkpoint/converter.js';
import { packFingerprint } from '../dist/checkpoint/identity.js';
import { readManifest } from '../dist/checkpoint/manifest.js';
import { workloads } from './batch-order-workloads.mjs';
import { machine } from './bench-result.mjs';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '3' },
    requests: { type: 'string', default: '256' },
    part: { type: 'string', default: '1/1' },
  },
});
const rounds = Number(values.rounds);
const count = Number(values.requests);
/** `maxPassedOver` of each order. */
const ORDERS = { arrival: 8, overlap: 8, 'overlap, 32': 32, shuffled: 8 };
const RESULT = 'bench/results/batch-order.json';
const NAMES = Object.keys(ORDERS);
/** Where so few wait, nobody is passed over more than eight times. */
const measured = (order, depth) => order !== 'overlap, 32' || depth > 32;
const DEPTHS = [8, 32, 128];
const SHARES = [0.5, 0.25, 0.125];
/** The longest MultiRC input has more than 512 tokens and is cut there. */
const TOKENS = { 'SST-2': [128, 512], 'SST-2, MRPC': [128, 512], 'SST-2, MRPC, MultiRC': [512, 2048] };

const found = workloads(count);
const [part, parts] = values.part.split('/').map(Number);
const all = Object.keys(found).flatMap((workload) =>
  TOKENS[workload].flatMap((maxBatchTokens) =>
    DEPTHS.flatMap((depth) => SHARES.map((share) => ({ workload, maxBatchTokens, depth, share }))),
  ),
);

const setups = all.filter((_, i) => i % parts === part - 1);

const dir = mkdtempSync(join(tmpdir(), 'sida-bench-'));
try {
  const { pack } = await convertCheckpoint({
    model: 'models/switch-mini',
    out: join(dir, 'pack'),
    experts: 'auto',
    dense: 'auto',
  });
  const fingerprint = packFingerprint((await readManifest(pack)).files);
  const requests = Object.fromEntries(Object.entries(found).map(([name, draw]) => [name, draw()]));
  const samples = setups.map(() => NAMES.map(() => []));
  for (let round = 0; round < rounds; round++) {
    for (const [i, setup] of setups.entries()) {
      for (const [o, order] of NAMES.entries()) {
        if (!measured(order, setup.depth)) continue;
        const sample = runOnce({ ...setup, order, requests: requests[setup.workload], pack, fingerprint });
        samples[i][o].push(sample);
        console.error(
          `round ${round + 1}/${rounds}, ${i + 1}/${setups.length} ${JSON.stringify(setup)} ${order}: ` +
            `${(sample.expertsNeeded / sample.requests).toFixed(2)} needed, ` +
            `${(sample.bytesMoved / sample.slotBytes / sample.requests).toFixed(2)} loaded a request, ${sample.wallMs.toFixed(0)} ms`,
        );
      }
    }
  }
  const measuredRuns = setups.map((setup, i) => {
    const orders = {};
    for (const [o, order] of NAMES.entries()) {
      if (!measured(order, setup.depth)) continue;
      const ratios = samples[i][o].map(({ wallMs }, round) => samples[i][0][round].wallMs / wallMs);
      orders[order] = {
        ...summary(samples[i][o]),
        overArrival: median(ratios),
        overArrivalOfRounds: ratios,
      };
    }
    return { ...setup, orders, digests: [...new Set(samples[i].flat().map(({ digest }) => digest))] };
  });
  const runs = all.flatMap((setup) => {
    const same = (run) => Object.entries(setup).every(([key, value]) => run[key] === value);
    return measuredRuns.find(same) ?? (parts > 1 ? earlierRuns().filter(same) : []);
  });
  const identical = sameAnswers(runs);
  const result = {
    question: 'What does ordering by expert overlap save?',
    command: 'node bench/batch-order.mjs',
    ...machine(),
    rounds,
    requests: count,
    identical,
    runs,
  };
  writeFileSync(RESULT, `${JSON.stringify(result, null, 1)}\n`);
  console.error(`answers identical: ${identical}; ${runs.length} of ${all.length} setups in ${RESULT}`);
  process.exitCode = identical ? 0 : 1;
} finally {
  rmSync(dir, { recursive: true, force: true });
}

function earlierRuns() {
  return existsSync(RESULT) ? JSON.parse(readFileSync(RESULT, 'utf8')).runs : [];
}

/** Whether every order, depth and memory budget gave the same bits; the budget of tokens cuts the longest inputs. */
function sameAnswers(runs) {
  const answers = new Map();
  for (const { workload, maxBatchTokens, digests } of runs) {
    const key = `${workload} ${maxBatchTokens}`;
    answers.set(key, new Set([...(answers.get(key) ?? []), ...digests]));
  }
  return [...answers.values()].every((digests) => digests.size === 1);
}

function runOnce({ maxBatchTokens, depth, share, order, requests, pack, fingerprint }) {
  const config = engineConfig({
    model: pack,
    predictor: 'models/switch-mini/predictor',
    memoryBudget: `${share * 100}%`,
    maxPassedOver: String(ORDERS[order]),
    maxBatchTokens: String(maxBatchTokens),
  });
  const input = JSON.stringify({ config, pack, fingerprint, order, requests, depth, warmUp: 64 });
  const child = spawnSync('node', ['bench/batch-order-process.mjs'], {
    input,
    encoding: 'utf8',
    maxBuffer: 1 << 26,
  });
  if (child.status !== 0) throw new Error(child.stderr);
  return JSON.parse(child.stdout);
}

/** Medians of the rounds, number by number; the worst wait is the worst of all. */
function summary(rounds) {
  const entries = Object.entries(rounds[0]).filter(([, value]) => typeof value === 'number');
  return Object.fromEntries(
    entries.map(([key]) => {
      const values = rounds.map((round) => round[key]);
      return [key, key.startsWith('worst') ? Math.max(...values) : median(values)];
    }),
  );
}
