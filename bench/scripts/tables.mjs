// Writes the pages of bench/results/, and the tables between <!-- table NAME --> and <!-- end --> of README.md, docs/
// and the models' cards, all from the results.
//   node bench/scripts/tables.mjs
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { renderSvg } from '../dist/report/charts.js';
import { sectionParts } from '../dist/report/report.js';
import { benchSections, benchTables } from './tables/bench.mjs';
import { gpuTables } from './tables/gpus.mjs';
import { machineTables, quotesChart } from './tables/machines.mjs';
import { paperTables } from './tables/papers.mjs';
import { memoryChart, peerTables } from './tables/peers.mjs';

const tables = { ...benchTables, ...paperTables, ...machineTables, ...gpuTables, ...peerTables };

/** Pages with the results of scripts: title, and the tables in order. */
const PAGES = {
  replay: ['Policies over recorded routing, beside Belady’s rule', ['replay-short', 'replay-misses']],
  gating: ['Static and dynamic gating, Expert Buffering', ['gating']],
  collectives: ['Collectives of an MoE layer, and placement of experts', ['collectives', 'placement']],
  dependency: ['How much a token’s expert depends on the other tokens', ['dependency']],
  'pass-parts': ['What a pass spends its time on', ['pass-parts']],
  'active-experts': ['Time of a layer by active experts', ['active-experts']],
  'batch-pruning': ['Finished sequences leave the batch', ['batch-pruning']],
  'element-types': ['Accuracy by element type', ['quantized-card-words', 'quantized-card']],
  train: ['Training time', ['train-time']],
  kernels: ['Kernels beside the machine’s limits', ['kernels']],
  planner: ['What planning costs', ['planner']],
  decode: ['Decoders within a budget', ['decode', 'cuda-decode-olmoe-7b', 'cuda-decode']],
  cuda: ['GPUs', ['cuda-machine', 'cuda-measurements', 'cuda-products', 'cuda-kernels']],
  rest: ['REST, streams and the queue', ['rest-overhead', 'streams', 'redis-queue']],
  transformers: ['Beside Hugging Face transformers', ['encoder-peers']],
  llama: ['Beside llama.cpp', ['llama-types', 'llama-limited', 'llama-tokens']],
  quotes: ['Quotes beside what answers took', ['quotes']],
  prediction: ['Servers with and without prediction', ['prediction-targets', 'prediction']],
};
const NOTE = 'Written by `node bench/scripts/tables.mjs` from the JSON files here.';
const CHARTS = 'bench/results/charts';

for (const [name, [title, own]] of Object.entries(PAGES)) {
  const parts = own.map((table) => tables[table]()).filter((part) => part !== '');
  if (parts.length > 0) writeFileSync(`bench/results/${name}.md`, `${[`# ${title}`, NOTE, ...parts].join('\n\n')}\n`);
}

writeFileSync('docs/pictures/memory.svg', await renderSvg(memoryChart()));

// Of the tables of all systems those over several budgets; a run's own report.md has the others.
const shown = benchSections.filter(({ id, chart }) => !id.startsWith('systems-') || chart !== undefined);
const page = ['# Systems under memory budgets: `sida bench`', NOTE, ...(await sectionParts(shown, CHARTS))];
writeFileSync('bench/results/systems.md', `${page.join('\n\n')}\n`);
writeFileSync(`${CHARTS}/quotes.svg`, await renderSvg(quotesChart()));

const MARKED = /(?<=<!-- table ([\w-]+) -->\n)[\s\S]*?(?=<!-- end -->)/g;
const docs = readdirSync('docs', { recursive: true }).filter((name) => name.endsWith('.md'));
const cards = ['switch-mini', 'switch-words'].map((model) => `models/${model}/README.md`);
for (const file of ['README.md', ...docs.map((name) => `docs/${name}`), ...cards]) {
  const before = readFileSync(file, 'utf8');
  const filled = before.replace(MARKED, (_, name) => {
    if (tables[name] === undefined) throw new Error(`${file} asks for a table "${name}", which no result makes`);
    return `${tables[name]()}\n`;
  });
  if (filled !== before) writeFileSync(file, filled);
}
