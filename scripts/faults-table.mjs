// Brings the results that `npm run test:faults` wrote to build/faults.json into the table of test/faults/results.md.
import { readFileSync, writeFileSync } from 'node:fs';
import { figuresOf, verdict } from './fault-words.mjs';

const WORDS = { PASS: 'pass', FAIL: '**fail**', MISSED: 'holds; **a limit is missed**' };
const { faults } = JSON.parse(readFileSync('build/faults.json', 'utf8'));
const file = 'test/faults/results.md';
const old = readFileSync(file, 'utf8');
const [block, head, rows] = /(<!-- faults:[^>]*-->\n)([\s\S]*?)<!-- end -->/.exec(old);
const keyOf = (row) => row.split(' | ', 2).join(' | ');
/** By fault. Those that the run left out stay as they were. */
const results = new Map(
  rows
    .split('\n')
    .slice(2)
    .filter((row) => row.startsWith('|'))
    .map((row) => [keyOf(row), row]),
);
const fresh = new Set();
for (const result of faults) {
  const { id, fault, seconds, date } = result;
  const counted = `${figuresOf(result).join('; ').replaceAll('|', '\\|')} (${seconds.toFixed(0)} s)`;
  const row = `| ${id} | ${fault} | ${counted} | ${WORDS[verdict(result)]} | ${result.commit ?? 'unknown'}, ${date.slice(0, 10)} |`;
  results.set(keyOf(row), row);
  fresh.add(keyOf(row));
}
const kept = [...results.values()].filter((row) => !fresh.has(keyOf(row)));
for (const row of kept) console.log(`kept, not in this run: ${keyOf(row)}`);
const machine = [...new Set(faults.map((result) => result.machine))].join('; ');
const table = [
  '| | fault | what was counted | result | commit |',
  '|---|---|---|---|---|',
  ...[...results.values()].sort((a, b) => a.localeCompare(b, 'en', { numeric: true })),
  '',
  `Machine of the newest: ${machine}.`,
].join('\n');
writeFileSync(
  file,
  old.replace(block, () => `${head}${table}\n<!-- end -->`),
);
