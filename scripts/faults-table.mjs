// Writes the table of test/faults/results.md, the last result of each fault, from build/faults.json (`npm run
// test:faults`) and build/faults-beside (sanitizers, fuzzers, GPU). Other results stay, each with its commit, while
// their file is there and did not run.
//   node scripts/faults-table.mjs [--full COMMIT]
// --full fails where a file has no result of that commit, and says so in the table.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { BESIDE, figuresOf, verdict } from './fault-words.mjs';

const FOLDER = 'test/faults';
const FILE = `${FOLDER}/results.md`;
const WORDS = { PASS: 'pass', FAIL: '**fail**', MISSED: 'holds; **a limit is missed**' };
/** What test:sanitizers, test:fuzz and test:cuda leave. */
const OTHERS = ['sanitizers', 'fuzzers', 'gpu'];
const OLD = '**not run on this commit**';
const HEAD = ['| file | fault | what was counted | result | commit |', '|---|---|---|---|---|'];
const MARKS = /(<!-- faults:[^>]*-->\n)([\s\S]*?)(<!-- end -->)/;
const line = (cells) => `| ${cells.map((cell) => String(cell).replaceAll('|', '\\|')).join(' | ')} |`;
const cellsOf = (row) =>
  row
    .slice(2, -2)
    .split(/(?<!\\) \| /)
    .map((cell) => cell.replaceAll('\\|', '|'));

const read = (file) => JSON.parse(readFileSync(file, 'utf8'));
const beside = existsSync(BESIDE) ? readdirSync(BESIDE).map((name) => read(`${BESIDE}/${name}`)) : [];
const results = [...(existsSync('build/faults.json') ? read('build/faults.json').faults : []), ...beside];
const files = readdirSync(FOLDER)
  .filter((name) => name.endsWith('.fault.ts'))
  .map((name) => name.replace('.fault.ts', ''));
const ran = new Set(results.map(({ file }) => file));
const text = readFileSync(FILE, 'utf8');
const kept = MARKS.exec(text)[2]
  .split('\n')
  .filter((row) => row.startsWith('| '))
  .slice(1)
  .map(cellsOf)
  .filter(([file]) => !ran.has(file) && [...files, ...OTHERS].includes(file));
const rows = results.map((result) => {
  const counted = `${figuresOf(result).join('; ')} (${result.seconds.toFixed(0)} s)`;
  const commit = `${result.commit ?? 'unknown'}, ${result.date.slice(0, 10)}`;
  return [result.file, result.fault, counted, WORDS[verdict(result)], commit];
});
const at = process.argv.indexOf('--full');
const full = at < 0 ? undefined : process.argv[at + 1];
const all = [...rows, ...kept].sort((a, b) => line(a).localeCompare(line(b), 'en', { numeric: true }));
if (full !== undefined) {
  for (const row of all) if (row[4].split(',')[0] !== full) row[3] = OLD;
  const missing = files.filter((file) => !all.some((row) => row[0] === file && row[3] !== OLD));
  for (const file of missing) console.error(`${file}: not run on ${full}`);
  if (missing.length > 0) process.exitCode = 1;
}
const machines = [...new Set(results.map(({ machine }) => machine))];
const machine = machines.length === 0 ? [] : ['', `Machine of the newest: ${machines.join('; ')}.`];
const table = [...HEAD, ...all.map(line), ...machine].join('\n');
writeFileSync(
  FILE,
  text.replace(MARKS, (_, begin, _old, end) => `${begin}${table}\n${end}`),
);
