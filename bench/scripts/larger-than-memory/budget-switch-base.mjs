// Does a Switch-base shape run inside a budget, with the same bits as the resident run?
//   node bench/scripts/larger-than-memory/budget-switch-base.mjs [--experts 8] [--dtype f32] [--budget 700MB]
//     [--reference resident|BUDGET]
//     [--max-batch-tokens 64] [--kv-tokens 96] [--sentences 8] [--steps 4] [--policy lru] [--dir DIR] [--keep]
// Random weights: shapes and bytes are those of Switch-base, answers mean nothing.
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { convertCheckpoint } from '../../../dist/checkpoint/converter.js';
import { loadAddon } from '../../../dist/native/addon.js';
import { formatBytes, parseBytes } from '../../../dist/text/bytes.js';
import { makeSwitchCheckpoint, run } from '../../dist/support/processes.js';
import { scriptProvenance } from '../../dist/support/provenance.js';
import { resultFile, writeResult } from '../../dist/support/script-result.js';

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
const PROCESS = new URL('budget-process.mjs', import.meta.url).pathname;
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
      await makeSwitchCheckpoint(model, ['--experts', values.experts, '--dtype', values.dtype]);
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
  const runWithin = async (budgetBytes) => {
    const { policy } = values;
    const [sentences, steps] = [Number(values.sentences), Number(values.steps)];
    const options = JSON.stringify({ pack, budgetBytes, limits, sentences, steps, policy });
    return JSON.parse(await run('node', ['--expose-gc', PROCESS, options]));
  };
  const reference = await runWithin(
    values.reference === 'resident' ? plan.resident : parseBytes(values.reference),
  );
  const budgeted = await runWithin(parseBytes(values.budget));
  const result = {
    question: 'Does a Switch-base shape run inside a budget with the same bits as the reference run?',
    ...scriptProvenance(),
    weights: 'random',
    limits,
    plan,
    reference,
    budgeted,
    identical: reference.digest === budgeted.digest,
    rssGrowthOverBudget: budgeted.rssGrowthBytes / budgeted.budgetBytes,
  };
  writeResult(`budget-${name}`, result);
  const row = (label, r) =>
    console.log(
      `${label.padEnd(10)} budget ${formatBytes(r.budgetBytes).padStart(10)}  slots ${String(r.slots).padStart(5)}  device peak ${formatBytes(r.peakDeviceBytes).padStart(10)}  RSS growth ${formatBytes(r.rssGrowthBytes).padStart(10)}  ${(r.runMs / 1000).toFixed(2)} s, stalled ${(r.stallNs / 1e9).toFixed(2)} s, moved ${formatBytes(r.bytesMoved)}`,
    );
  row('reference', reference);
  row('budgeted', budgeted);
  console.log(
    `identical ${result.identical}, RSS growth / budget ${result.rssGrowthOverBudget.toFixed(3)}; ${resultFile(`budget-${name}`)}`,
  );
  process.exitCode = result.identical && result.rssGrowthOverBudget <= 1.1 ? 0 : 1;
} finally {
  if (!values.keep && values.dir === undefined) rmSync(dir, { recursive: true, force: true });
}
