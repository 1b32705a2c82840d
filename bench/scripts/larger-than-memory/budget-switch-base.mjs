// Does a Switch-base shape run inside a budget, with the same bits as the resident run?
//   node bench/scripts/larger-than-memory/budget-switch-base.mjs [--experts 8] [--dtype f32] [--budget 700MB] [--reference resident|BUDGET]
//     [--max-batch-tokens 64] [--kv-tokens 96] [--sentences 8] [--steps 4] [--policy lru] [--dir DIR] [--keep]
// Random weights: shapes and bytes are those of Switch-base, answers mean nothing.
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus, tmpdir, totalmem } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { convertCheckpoint } from '../../../dist/checkpoint/converter.js';
import { formatBytes, parseBytes } from '../../../dist/config/bytes.js';
import { loadAddon } from '../../../dist/native/addon.js';

const { values } = parseArgs({
  options: {
    experts: { type: 'string', default: '8' },
    dtype: { type: 'string', default: 'f32' },
    budget: { type: 'string', default: '700MB' },
    reference: { type: 'string', default: 'resident' },
    'max-batch-tokens': { type: 'string', default: '64' },
    'kv-tokens': { type: 'string', default: '96' },
    sentences: { type: 'string', default: '8' },
    steps: { type: 'string', default: '4' },
    policy: { type: 'string', default: 'lru' },
    dir: { type: 'string' },
    keep: { type: 'boolean', default: false },
  },
});
const dir = values.dir ?? mkdtempSync(join(tmpdir(), 'sida-bench-'));
mkdirSync(dir, { recursive: true });
const name = `switch-base-${values.experts}-${values.dtype}`;
const model = join(dir, name);
const pack = join(dir, `${name}.pack`);
const limits = {
  maxBatchTokens: Number(values['max-batch-tokens']),
  kvTokens: Number(values['kv-tokens']),
  threads: availableParallelism(),
};
try {
  if (!existsSync(pack)) {
    if (!existsSync(join(model, 'config.json'))) {
      execFileSync(
        'node',
        [
          'bench/scripts/make-switch-checkpoint.mjs',
          '--out',
          model,
          '--experts',
          values.experts,
          '--dtype',
          values.dtype,
        ],
        { stdio: 'inherit' },
      );
    }
    let shown = -1;
    const began = performance.now();
    await convertCheckpoint({
      model,
      out: pack,
      experts: 'auto',
      dense: 'auto',
      onProgress: ({ phase, done, total }) => {
        const percent = Math.floor((10 * done) / total) * 10;
        if (percent !== shown) console.error(`${phase} ${percent} %`);
        shown = percent;
      },
    });
    console.error(`converted in ${((performance.now() - began) / 1000).toFixed(1)} s`);
    if (!values.keep && values.dir === undefined) rmSync(model, { recursive: true });
  }
  const plan = loadAddon().planMemory({ pack }, limits);
  const run = (budgetBytes) => {
    const options = {
      pack,
      budgetBytes,
      limits,
      sentences: Number(values.sentences),
      steps: Number(values.steps),
      policy: values.policy,
    };
    const child = spawnSync(
      'node',
      ['--expose-gc', 'bench/scripts/larger-than-memory/budget-process.mjs', JSON.stringify(options)],
      {
        encoding: 'utf8',
        maxBuffer: 1 << 26,
      },
    );
    if (child.status !== 0) throw new Error(child.stderr);
    return JSON.parse(child.stdout);
  };
  const reference = run(values.reference === 'resident' ? plan.resident : parseBytes(values.reference));
  const budgeted = run(parseBytes(values.budget));
  const result = {
    question: 'Does a Switch-base shape run inside a budget with the same bits as the reference run?',
    command:
      `node bench/scripts/larger-than-memory/budget-switch-base.mjs ${process.argv.slice(2).join(' ')}`.trim(),
    commit: execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim(),
    machine: `${cpus()[0].model}, ${availableParallelism()} cores, ${formatBytes(totalmem())}`,
    node: process.version,
    isa: loadAddon().cpuFeatures().isa,
    weights: 'random',
    limits,
    plan,
    reference,
    budgeted,
    identical: reference.digest === budgeted.digest,
    rssGrowthOverBudget: budgeted.rssGrowthBytes / budgeted.budgetBytes,
  };
  const file = `bench/results/budget-${name}.json`;
  writeFileSync(file, `${JSON.stringify(result, null, 1)}\n`);
  const row = (label, r) =>
    console.log(
      `${label.padEnd(10)} budget ${formatBytes(r.budgetBytes).padStart(10)}  slots ${String(r.slots).padStart(5)}  device peak ${formatBytes(r.peakDeviceBytes).padStart(10)}  RSS growth ${formatBytes(r.rssGrowthBytes).padStart(10)}  ${(r.runMs / 1000).toFixed(2)} s, stalled ${(r.stallNs / 1e9).toFixed(2)} s, moved ${formatBytes(r.bytesMoved)}`,
    );
  row('reference', reference);
  row('budgeted', budgeted);
  console.log(
    `identical ${result.identical}, RSS growth / budget ${result.rssGrowthOverBudget.toFixed(3)}; ${file}`,
  );
  process.exitCode = result.identical && result.rssGrowthOverBudget <= 1.1 ? 0 : 1;
} finally {
  if (!values.keep && values.dir === undefined) rmSync(dir, { recursive: true, force: true });
}
