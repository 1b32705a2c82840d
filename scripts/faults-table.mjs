// Fills the table of docs/operations.md from build/faults.json, which `npm run test:faults` wrote.
import { readFileSync, writeFileSync } from 'node:fs';
import { figuresOf, verdict } from './fault-words.mjs';

const WORDS = { PASS: 'pass', FAIL: '**fail**', MISSED: 'holds; **a limit is missed**' };
const { faults } = JSON.parse(readFileSync('build/faults.json', 'utf8'));
const machines = [...new Set(faults.map(({ machine }) => machine))];
const rows = [
  '| | fault | what was counted | result | commit |',
  '|---|---|---|---|---|',
  ...faults.map(
    (result) =>
      `| ${result.id} | ${result.fault} | ${figuresOf(result).join('; ').replaceAll('|', '\\|')} (${result.seconds.toFixed(0)} s) | ${WORDS[verdict(result)]} | ${result.commit ?? 'unknown'}, ${result.date.slice(0, 10)} |`,
  ),
  '',
  `Machine: ${machines.join('; ')}.`,
].join('\n');
const file = 'docs/operations.md';
const old = readFileSync(file, 'utf8');
writeFileSync(
  file,
  old.replace(/(<!-- faults:[^>]*-->\n)[\s\S]*?(<!-- end -->)/, (_, head, end) => `${head}${rows}\n${end}`),
);
