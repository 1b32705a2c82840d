// Runs the cases that other projects wrote (test/data/cases) and prints a table: suite, run, pass, argued, failed. A
// case that is argued does not give what the other project expects, for the reason that is told. With --write, the
// table and the reasons go into test/data/cases/README.md. Run after `npm run build:ts`.
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { brotliDecompressSync } from 'node:zlib';

const REPORT = 'build/cases.json';
const DATA = 'test/data/cases';
const README = `${DATA}/README.md`;

/** Cases of a file: a line each, or those that a bug report lists, or one. */
function casesIn(name) {
  if (!/\.jsonl(\.br)?$|^reports\/[^/]*\.json$/.test(name)) return 0;
  const bytes = readFileSync(`${DATA}/${name}`);
  if (name.endsWith('.jsonl')) return bytes.toString().trim().split('\n').length;
  if (name.endsWith('.jsonl.br')) return brotliDecompressSync(bytes).toString().trim().split('\n').length;
  return JSON.parse(bytes).cases?.length ?? 1;
}

const files = readdirSync('test', { recursive: true })
  .map((name) => `test/${name}`)
  .filter((name) => name.endsWith('.test.ts') && readFileSync(name, 'utf8').includes('support/cases.js'));
const args = ['vitest', 'run', '--project', 'unit', '--project', 'integration', ...files];
rmSync(REPORT, { force: true });
const { status } = spawnSync('npx', [...args, '--reporter=json', `--outputFile=${REPORT}`], {
  stdio: 'inherit',
});

const suites = new Map();
for (const { assertionResults } of JSON.parse(readFileSync(REPORT, 'utf8')).testResults)
  for (const { title, status, meta } of assertionResults) {
    if (meta?.suite === undefined) continue;
    const all = suites.get(meta.suite) ?? [];
    suites.set(meta.suite, [...all, { title, failed: status !== 'passed', argued: meta.argued }]);
  }

const rows = [...suites].map(([suite, cases]) => {
  const failed = cases.filter((each) => each.failed).length;
  const argued = cases.filter((each) => !each.failed && each.argued !== undefined).length;
  return [suite, cases.length, cases.length - argued - failed, argued, failed];
});
const total = [1, 2, 3, 4].map((at) => rows.reduce((sum, row) => sum + row[at], 0));
const table = [['suite', 'run', 'pass', 'argued', 'failed'], Array(5).fill('---'), ...rows, ['all', ...total]]
  .map((cells) => `| ${cells.join(' | ')} |`)
  .join('\n');
console.log(table);

/** A reason without the place in the schema and the names of that schema. */
const kindOf = (reason) =>
  reason.replace(/^.*cannot be used: /, '').replace(/^"[^"]*" names/, 'a reference names');
const line = (text) => text.replaceAll('\n', '\\n').slice(0, 100);
const reasons = [...suites].flatMap(([suite, cases]) => {
  const argued = cases.filter((each) => each.argued !== undefined);
  const byKind = new Map();
  for (const { title, argued: why } of argued)
    byKind.set(kindOf(why), [...(byKind.get(kindOf(why)) ?? []), title]);
  const kinds = [...byKind].sort(([, one], [, other]) => other.length - one.length);
  const lines = kinds.map(([why, titles]) =>
    titles.length === 1 ? `- \`${line(titles[0])}\`: ${line(why)}` : `- ${titles.length} cases: ${line(why)}`,
  );
  return lines.length === 0 ? [] : [`### ${suite}`, '', ...lines, ''];
});
if (process.argv.includes('--write')) {
  const old = readFileSync(README, 'utf8');
  const filled = `<!-- cases: written by \`node scripts/cases.mjs --write\` -->\n${table}\n\n## Argued\n\n${reasons.join('\n')}`;
  writeFileSync(README, `${old.slice(0, old.indexOf('<!-- cases:'))}${filled.trimEnd()}\n`);
}
const given = readdirSync(DATA, { recursive: true }).reduce((sum, name) => sum + casesIn(name), 0);
if (total[0] !== given) console.error(`${total[0]} cases ran, but the data has ${given}.`);
process.exitCode = status === 0 && total[3] === 0 && total[0] === given ? 0 : 1;
