// How much does a token's expert depend on the other tokens, and how many critical tokens would explain it? Figures 6
// and 7 of SiDA-MoE and its equation 2: `sida bench dependency` with tokens replaced and with places swapped, on
// sentences as they are and on inputs of 512 tokens, as in the paper. Long inputs are running text where --text names
// some, otherwise the joined sentences of SST-2.
//   node bench/scripts/dependency/dependency.mjs [--models models/switch-mini] [--text F.txt] [--inputs 100]
//     [--length 512] [--singles 4] [--seed 1]
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { dependencyChart } from '../../dist/charts/dependency.js';
import { renderSvg } from '../../dist/charts/svg.js';
import { BUNDLED_SST2, REPOSITORY } from '../../dist/support/paths.js';
import { laboratory } from '../../dist/support/processes.js';
import { scriptProvenance } from '../../dist/support/provenance.js';
import { writeResult } from '../../dist/support/script-result.js';

const text = (fallback) => ({ type: 'string', default: fallback });
const { values } = parseArgs({
  options: {
    models: text('models/switch-mini'),
    text: { type: 'string' },
    inputs: text('100'),
    length: text('512'),
    singles: text('4'),
    seed: text('1'),
  },
});
const CHART = 'docs/charts/critical-tokens.svg';
const SHARES = '5%,10%,25%,30%,50%,70%,75%,90%,100%';
const models = values.models.split(',').map((model) => resolve(model));
const running = values.text && resolve(values.text);
process.chdir(REPOSITORY);
const { inputs, length, singles, seed } = values;
const folder = mkdtempSync(join(tmpdir(), 'sida-dependency-'));

/** Lines of running text as JSON lines. */
function linesOf(file) {
  const lines = readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line.trim() !== '');
  const out = join(folder, `${basename(file)}.jsonl`);
  writeFileSync(out, lines.map((line) => JSON.stringify({ text: line })).join('\n'));
  return out;
}

async function measure(model, data, file, template, args) {
  console.error(`${basename(model)}, ${data}`);
  // biome-ignore format: a command line
  const report = JSON.parse(await laboratory(['dependency', model, '--data', file, '--template', template,
    '--limit', inputs, '--swaps', '--shares', SHARES, '--singles', singles, '--seed', seed, '--pack-dir', join(folder, 'packs'), '--json', ...args],
    { showErrors: true }));
  return { ...report, data };
}

try {
  const reports = [];
  const long = running === undefined ? BUNDLED_SST2 : linesOf(running);
  const longName = running === undefined ? 'joined sentences of SST-2' : basename(running);
  for (const model of models) {
    reports.push(await measure(model, 'sentences of SST-2', BUNDLED_SST2, 'sst2 sentence: {text}', []));
    const longTitle = `${longName}, ${length} tokens`;
    reports.push(await measure(model, longTitle, long, '{text}', ['--length', length]));
  }
  writeResult('dependency', {
    question: 'How much does a token’s expert depend on the other tokens?',
    ...scriptProvenance(),
    control: 'the same input again; another token of the input in the place of the token itself',
    reports,
  });
  writeFileSync(CHART, await renderSvg(dependencyChart(reports)));
} finally {
  rmSync(folder, { recursive: true, force: true });
}
