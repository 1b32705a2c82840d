// Writes the tables of README.md, docs/ and bench/notes/ from bench/results/, between <!-- table NAME --> marks.
//   node bench/scripts/tables.mjs
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { cudaTables } from './cuda/tables.mjs';
import { diskTables } from './disk/tables.mjs';
import { quantizedTables } from './element-types/tables.mjs';
import { kernelTables } from './kernels/tables.mjs';
import { placementTables } from './placement/tables.mjs';
import { predictorTables } from './predictor/tables.mjs';
import { profileTables } from './profile/tables.mjs';
import { replayTables } from './replay/tables.mjs';
import { benchTables } from './report-tables.mjs';
import { mib, result, source, table } from './table-format.mjs';
import { peerTables } from './transformers/tables.mjs';

const tables = {
  ...predictorTables,
  ...profileTables,
  ...cudaTables,
  ...diskTables,
  ...kernelTables,
  ...replayTables,
  ...peerTables,
  ...placementTables,
  ...quantizedTables,
  ...benchTables,
  'switch-base': () => {
    const rows = ['switch-base-8-f32', 'switch-base-128-bf16'].flatMap((name) => {
      const r = result(`budget-${name}`);
      return [
        ['reference', r.reference],
        ['budgeted', r.budgeted],
      ].map(([label, run]) => [
        `${name}, ${label}`,
        mib(run.budgetBytes),
        `${run.slots} of ${r.plan.experts}`,
        mib(run.peakDeviceBytes),
        `${mib(run.rssGrowthBytes)} (${(run.rssGrowthBytes / run.budgetBytes).toFixed(3)}× budget)`,
        mib(run.bytesMoved),
        `${(run.runMs / r.reference.runMs).toFixed(2)}×`,
        r.identical ? 'identical' : 'DIFFERENT',
      ]);
    });
    const head = [
      'model, run',
      'budget',
      'slots',
      'device peak',
      'growth of RSS, peak',
      'moved',
      'time / reference',
      'hidden states and logits',
    ];
    const sources = ['switch-base-8-f32', 'switch-base-128-bf16'].map((name) =>
      source(result(`budget-${name}`)),
    );
    return `${table(head, rows)}\n\n${sources.join('  \n')}`;
  },
  'olmoe-7b': () => {
    const r = result('olmoe-7b');
    const rows = r.results.map((run) => [
      run.budget,
      `${run.slots} of ${run.experts}`,
      `${mib(run.rssGrowthBytes)} (${(run.rssGrowthBytes / run.budgetBytes).toFixed(3)}× budget)`,
      `${run.prefillTokensPerSecond.toFixed(1)}`,
      `${run.decodeTokensPerSecond.toFixed(1)}`,
      mib(run.bytesPerToken),
      `${(100 * run.hits).toFixed(1)} %`,
      `${(100 * run.stallShare).toFixed(0)} %`,
      `${run.distinct} in ${run.steps}`,
      r.identical ? 'identical' : 'DIFFERENT',
    ]);
    const head = [
      ...[
        'budget',
        'slots',
        'growth of RSS, peak',
        'prefill, tokens/s',
        'decode, tokens/s',
        'loaded a token',
      ],
      ...['hits', 'time stalled', 'distinct tokens', 'logits'],
    ];
    return `${table(head, rows)}\n\n${source(r)}`;
  },
};

/** What is not measured yet keeps what stands there. */
function filledTable(name, before, page) {
  if (tables[name] === undefined && name.startsWith('bench-')) {
    console.error(`${name}: \`sida bench\` has not measured it`);
    return before;
  }
  if (tables[name] === undefined)
    throw new Error(`${page} asks for a table "${name}", which no script makes`);
  try {
    return `${tables[name](page)}\n`;
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
    console.error(`${name}: ${error.path} is not there`);
    return before;
  }
}

const pagesOf = (folder) =>
  readdirSync(folder, { recursive: true })
    .filter((name) => name.endsWith('.md'))
    .map((name) => `${folder}/${name}`);

for (const file of [
  'README.md',
  ...pagesOf('docs'),
  ...pagesOf('bench/notes'),
  'models/switch-mini/README.md',
]) {
  const text = readFileSync(file, 'utf8');
  const filled = text.replace(
    /(<!-- table ([\w-]+) -->\n)([\s\S]*?)(<!-- end -->)/g,
    (_, begin, name, before, end) => `${begin}${filledTable(name, before, file)}${end}`,
  );
  if (filled !== text) writeFileSync(file, filled);
}
