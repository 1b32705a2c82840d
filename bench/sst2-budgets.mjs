// What does a budget cost, and what does it change? The bundled model on SST-2's validation set, batch 1, every
// policy at four budgets, each in a process of its own, three rounds; times are medians of the rounds' medians.
//   node bench/sst2-budgets.mjs
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { convertCheckpoint } from '../dist/checkpoint/converter.js';
import { loadAddon } from '../dist/native/addon.js';

const ROUNDS = 3;
const dir = mkdtempSync(join(tmpdir(), 'sida-bench-'));
try {
  const { pack } = await convertCheckpoint({
    model: 'models/switch-mini',
    out: join(dir, 'pack'),
    experts: 'auto',
    dense: 'auto',
  });
  const limits = { maxBatchTokens: 2048, kvTokens: 3072, threads: availableParallelism() };
  const plan = loadAddon().planMemory({ pack }, limits);
  const shares = { '100%': 1, '50%': 0.5, '25%': 0.25, '10%': 0.1, smallest: 0 };
  const setups = Object.entries(shares).flatMap(([budget, share]) =>
    (share === 1 ? ['lru'] : ['lru', 'fifo', 'lfu', 'lifo']).map((policy) => ({
      budget,
      policy,
      budgetBytes: Math.max(plan.smallest, plan.fixed + share * plan.expertBytes),
    })),
  );
  const samples = setups.map(() => []);
  // Round by round, so that a slow minute of the machine falls on every setup alike.
  for (let round = 0; round < ROUNDS; round++) {
    for (const [i, { budget, policy, budgetBytes }] of setups.entries()) {
      const options = JSON.stringify({ pack, budgetBytes, limits, policy });
      const child = spawnSync('node', ['bench/sst2-process.mjs', options], { encoding: 'utf8' });
      if (child.status !== 0) throw new Error(child.stderr);
      samples[i].push(JSON.parse(child.stdout));
      const { p50Ms, accuracy } = samples[i].at(-1);
      console.error(
        `round ${round + 1}/${ROUNDS} ${budget} ${policy}: ${p50Ms.toFixed(2)} ms, accuracy ${accuracy.toFixed(4)}`,
      );
    }
  }
  const median = (values) => values.sort((x, y) => x - y)[values.length >> 1];
  const runs = setups.map(({ budget }, i) => ({
    budget,
    ...samples[i][0],
    p50Ms: median(samples[i].map((sample) => sample.p50Ms)),
    p99Ms: median(samples[i].map((sample) => sample.p99Ms)),
  }));
  const result = {
    question: 'What does a memory budget cost on SST-2, and what does it change?',
    command: 'node bench/sst2-budgets.mjs',
    commit: execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim(),
    machine: `${cpus()[0].model}, ${availableParallelism()} cores`,
    node: process.version,
    isa: loadAddon().cpuFeatures().isa,
    limits,
    plan,
    runs,
    rounds: ROUNDS,
    identical: samples.flat().every((run) => run.digest === runs[0].digest),
  };
  writeFileSync('bench/results/sst2-budgets.json', `${JSON.stringify(result, null, 1)}\n`);
  console.error(`identical ${result.identical}; bench/results/sst2-budgets.json`);
  process.exitCode = result.identical ? 0 : 1;
} finally {
  rmSync(dir, { recursive: true, force: true });
}
