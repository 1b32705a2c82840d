// Everything on one commit: all faults, tests with a random seed, sanitizers, fuzzers, and the GPU's tests where there
// is one. Faults are first, as they alone need a quiet machine. Afterwards test/faults/results.md has the table. A part
// that fails does not keep the others from running. Results are those of a commit, so nothing may differ from it.
import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { BESIDE, thisRun } from './fault-words.mjs';

/** The table of this run, the one file that may change. */
const TABLE = 'test/faults/results.md';
/** What test:cuda ends with when there is no GPU. */
const NOTHING_TESTED = 2;

const parts = [
  ['test:faults', {}],
  ['test', { SIDA_TEST_SEED: 'random' }],
  ['test:sanitizers', {}],
  ['test:fuzz', {}],
  ['test:cuda', {}],
];

/** Files that differ from the commit, and those that it does not have. */
function changes() {
  const { status, stdout } = spawnSync('git', ['status', '--porcelain'], { encoding: 'utf8' });
  if (status !== 0) throw new Error('git status failed: the results would be of no commit');
  return stdout.split('\n').filter((line) => line !== '');
}

const before = changes();
if (before.length > 0) {
  console.error(`The tree differs from its commit, so the results would not be those of the commit:`);
  console.error(before.join('\n'));
  process.exit(2);
}
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
// Before the table is written.
const after = thisRun().commit;
const table = spawnSync('node', ['scripts/faults-table.mjs', '--full', String(commit)], { stdio: 'inherit' });
console.log(`\n${said.join('\n')}`);
if (after !== commit || changes().some((line) => line.slice(3) !== TABLE)) {
  console.error(`The tree changed from ${commit} to ${after}: the results are not those of one commit.`);
  console.error(changes().join('\n'));
  failed = true;
}
process.exitCode = failed || table.status !== 0 ? 1 : 0;
