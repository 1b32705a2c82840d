// What does a budget cost, and what does it change? The bundled model on SST-2's validation set, batch 1, every
// policy at four budgets, each in a process of its own.
//   node bench/sst2-budgets.mjs
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { convertCheckpoint } from '../dist/checkpoint/converter.js';
import { loadAddon } from '../dist/native/addon.js';

const dir = mkdtempSync(join(tmpdir(), 'sida-bench-'));
try {
  const { pack } = await convertCheckpoint({
    model: 'models/switch-mini',
    out: join(dir, 'pack'),
    experts: 'auto',
    dense: 'auto',
  });
  const limits = { maxBatchTokens: 512, kvTokens: 768, threads: availableParallelism() };
  const plan = loadAddon().planMemory({ pack }, limits);
  const shares = { '100%': 1, '50%': 0.5, '25%': 0.25, '10%': 0.1, smallest: 0 };
  const runs = [];
  for (const [budget, share] of Object.entries(shares)) {
    for (const policy of ['lru', 'fifo', 'lfu', 'lifo']) {
      if (share === 1 && policy !== 'lru') continue;
      const budgetBytes = Math.max(plan.smallest, plan.fixed + share * plan.expertBytes);
      const child = spawnSync(
        'node',
        ['bench/sst2-process.mjs', JSON.stringify({ pack, budgetBytes, limits, policy })],
        { encoding: 'utf8' },
      );
      if (child.status !== 0) throw new Error(child.stderr);
      runs.push({ budget, ...JSON.parse(child.stdout) });
      console.error(
        `${budget} ${policy}: ${runs.at(-1).p50Ms.toFixed(2)} ms, accuracy ${runs.at(-1).accuracy.toFixed(4)}`,
      );
    }
  }
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
    identical: runs.every((run) => run.digest === runs[0].digest),
  };
  writeFileSync('bench/results/sst2-budgets.json', `${JSON.stringify(result, null, 1)}\n`);
  console.error(`identical ${result.identical}; bench/results/sst2-budgets.json`);
  process.exitCode = result.identical ? 0 : 1;
} finally {
  rmSync(dir, { recursive: true, force: true });
}
