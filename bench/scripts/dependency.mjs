// How much does a token's expert depend on the other tokens, and how many critical tokens would explain it? Figures 6
// and 7 of SiDA-MoE and its equation 2: tokens replaced and places swapped, on sentences and on long inputs.
import { readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { openModel } from '../../dist/engine/open-model.js';
import { cut } from '../dist/studies/corruption.js';
import { measureDependency } from '../dist/studies/dependency.js';
import { scriptProvenance } from '../dist/support/provenance.js';
import { optionsOf, scratchDirectory, writeResult } from '../dist/support/script.js';
import { sst2Texts } from '../dist/support/sst2.js';

const HELP = `node bench/scripts/dependency.mjs [--model models/switch-mini] [--text F.txt] [--inputs 100] [--length 512] [--seed 1]
  [--quick]
Long inputs are running text where --text names some, otherwise the joined sentences of SST-2. The result is
bench/results/dependency.json.`;

const { model, text, inputs, length, seed, quick } = optionsOf(HELP);
const SHARES = [0.05, 0.1, 0.25, 0.3, 0.5, 0.7, 0.75, 0.9, 1];

const limits = { memoryBudget: '100%', hostBudget: '0', maxBatchTokens: 2 * length, threads: 2 };
const { name, engine, tokenizer } = await openModel({
  ...{ model, experts: 'auto', ...limits },
  ...{ packDir: join(scratchDirectory(), 'packs'), newTokens: 0, sequences: 0, onProgress: () => {} },
});
const encode = (line) => Int32Array.from(tokenizer.encode(line));
const running =
  text &&
  readFileSync(text, 'utf8')
    .split('\n')
    .filter((line) => line.trim() !== '');
const sources = [
  ['sentences of SST-2', sst2Texts().map((line) => encode(`sst2 sentence: ${line}`))],
  [
    `${text ? basename(text) : 'joined sentences of SST-2'}, ${length} tokens`,
    cut((running ?? sst2Texts()).map(encode), length),
  ],
];
const reports = [];
for (const [data, all] of sources) {
  console.error(data);
  // An input of one word has no other token to replace.
  const usable = all.filter((tokens) => tokens.length > 2).slice(0, inputs);
  const given = { shares: SHARES, seed };
  reports.push({ model: name, data, ...measureDependency(engine, usable, given) });
}
engine.close();
const question = 'How much does a token’s expert depend on the other tokens?';
const control = 'the same input again; another token of the input in the place of the token itself';
writeResult('dependency', { question, ...scriptProvenance(), control, reports }, quick);
