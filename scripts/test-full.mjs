// Everything on one commit: all faults, tests with a random seed, sanitizers, fuzzers, and the GPU's tests where there
// is one. Faults are first, as they alone need a quiet machine. Afterwards test/faults/results.md has the table. A part
// that fails does not keep the others from running.
import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { BESIDE, thisRun } from './fault-words.mjs';

/** What test:cuda ends with when there is no GPU. */
const NOTHING_TESTED = 2;

const parts = [
  ['test:faults', {}],
  ['test', { SIDA_TEST_SEED: 'random' }],
  ['test:sanitizers', {}],
  ['test:fuzz', {}],
  ['test:cuda', {}],
];
rmSync(BESIDE, { recursive: true, force: true });
const { commit } = thisRun();
const said = [];
let failed = false;
for (const [script, env] of parts) {
  const started = performance.now();
  const { status } = spawnSync('npm', ['run', '--silent', script], {
    stdio: 'inherit',
    env: { ...process.env, ...env },
  });
  const minutes = ((performance.now() - started) / 60_000).toFixed(1);
  const withoutGpu = script === 'test:cuda' && status === NOTHING_TESTED;
  if (status !== 0 && !withoutGpu) failed = true;
  said.push(`${script}: ${withoutGpu ? 'no GPU' : status === 0 ? 'passed' : 'FAILED'} in ${minutes} minutes`);
}
const table = spawnSync('node', ['scripts/faults-table.mjs', '--full', String(commit)], { stdio: 'inherit' });
console.log(`\n${said.join('\n')}`);
const end = thisRun().commit;
// The table itself makes the tree dirty.
if (end?.replace('-dirty', '') !== commit?.replace('-dirty', '')) {
  console.error(`The commit changed from ${commit} to ${end}: the results are not those of one commit.`);
  failed = true;
}
process.exitCode = failed || table.status !== 0 ? 1 : 0;
