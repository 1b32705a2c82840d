// Fills the table of docs/faults.md from build/faults.json, which `npm run test:faults` wrote.
import { readFileSync, writeFileSync } from 'node:fs';

const { date, commit, machine, faults } = JSON.parse(readFileSync('build/faults.json', 'utf8'));
const rows = [
  '| | fault | what was counted | result |',
  '|---|---|---|---|',
  ...faults.map(
    ({ id, fault, figures, passed, seconds }) =>
      `| ${id} | ${fault} | ${figures.join('; ')} (${seconds.toFixed(0)} s) | ${passed ? 'pass' : '**fail**'} |`,
  ),
  '',
  `Run on ${date.slice(0, 10)}, commit ${commit ?? 'unknown'}: ${machine}.`,
].join('\n');
const file = 'docs/faults.md';
const old = readFileSync(file, 'utf8');
writeFileSync(
  file,
  old.replace(/(<!-- faults:[^>]*-->\n)[\s\S]*?(<!-- end -->)/, (_, head, end) => `${head}${rows}\n${end}`),
);
