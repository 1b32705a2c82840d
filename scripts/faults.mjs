// The fault suite. Results go to build/faults.json, of which scripts/faults-table.mjs makes the table of docs/faults.md.
// Arguments are names of files to run, such as F22; without any, all run.
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, release } from 'node:os';

const folder = 'build/faults';
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });

const { status } = spawnSync(
  'npx',
  ['vitest', 'run', '--config', 'vitest.faults.config.ts', ...process.argv.slice(2)],
  { stdio: 'inherit' },
);

const faults = readdirSync(folder)
  .map((file) => JSON.parse(readFileSync(`${folder}/${file}`, 'utf8')))
  .sort((a, b) => a.id.localeCompare(b.id, 'en', { numeric: true }));
const git = spawnSync('git', ['describe', '--always', '--dirty'], { encoding: 'utf8' });
const machine = `${cpus()[0].model.trim()}, ${cpus().length} cores, Linux ${release()}, Node ${process.version}`;
const commit = git.status === 0 ? git.stdout.trim() : null;
writeFileSync(
  'build/faults.json',
  `${JSON.stringify({ date: new Date().toISOString(), commit, machine, faults }, null, 2)}\n`,
);

console.log('');
for (const { id, fault, figures, passed } of faults) {
  console.log(`${id} ${fault}: ${figures.join(', ')} ${passed ? 'PASS' : 'FAIL'}`);
}
const failed = faults.filter(({ passed }) => !passed).length;
console.log(`\n${faults.length - failed} faults passed, ${failed} failed`);
process.exitCode = status === 0 && failed === 0 ? 0 : 1;
