// The fault suite. Results go to build/faults.json, of which scripts/faults-table.mjs makes the table of
// test/faults/results.md. Arguments are names of files to run, such as engine-killed; without any, all run. Results of
// files that do not run stay, each with its commit. What must hold on any machine fails the suite. Limits of time fail
// it with --strict.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { figuresOf, thisRun, verdict } from './fault-words.mjs';

const strict = process.argv.includes('--strict');
const names = process.argv.slice(2).filter((argument) => argument !== '--strict');
const folder = 'build/faults';
const file = 'build/faults.json';
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });

const paths = names.map((name) => `test/faults/${name}`);
const args = ['vitest', 'run', '--project', 'faults', ...paths];
const { status } = spawnSync('npx', args, { stdio: 'inherit' });

const read = (path) => JSON.parse(readFileSync(path, 'utf8'));
const run = thisRun();
const faults = readdirSync(folder).map((each) => ({ ...read(`${folder}/${each}`), ...run }));
const keyOf = (each) => `${each.file}: ${each.fault}`;
const byName = (a, b) => keyOf(a).localeCompare(keyOf(b));
const fresh = new Set(faults.map(keyOf));
const before = names.length > 0 && existsSync(file) ? read(file).faults : [];
const all = [...before.filter((each) => !fresh.has(keyOf(each))), ...faults].sort(byName);
writeFileSync(file, `${JSON.stringify({ faults: all }, null, 2)}\n`);

console.log('');
for (const result of faults.sort(byName))
  console.log(`${keyOf(result)}: ${figuresOf(result).join(', ')} ${verdict(result)}`);
const count = (word) => faults.filter((result) => verdict(result) === word).length;
console.log(
  `\n${count('PASS')} faults passed, ${count('FAIL')} failed, ${count('MISSED')} held but missed a limit of time`,
);
process.exitCode = status === 0 && count('FAIL') === 0 && !(strict && count('MISSED') > 0) ? 0 : 1;
