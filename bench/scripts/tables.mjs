// Writes the tables of README.md, docs/, bench/notes/ and the models' cards from bench/results/, between
// <!-- table NAME --> marks, and their charts.
//   node bench/scripts/tables.mjs
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { filledPage } from '../dist/report/filled-page.js';
import { activeExpertTables } from './active-experts/tables.mjs';
import { pruningTables } from './batch-pruning/tables.mjs';
import { cudaTables } from './cuda/tables.mjs';
import { dependencyTables } from './dependency/tables.mjs';
import { quantizedTables } from './element-types/tables.mjs';
import { llamaTables } from './gguf/tables.mjs';
import { kernelTables } from './kernels/tables.mjs';
import { largeModelTables } from './larger-than-memory/tables.mjs';
import { passPartTables } from './pass-parts/tables.mjs';
import { placementTables } from './placement/tables.mjs';
import { plannerTables } from './planner/tables.mjs';
import { predictorTables } from './predictor/tables.mjs';
import { replayTables } from './replay/tables.mjs';
import { benchTables } from './report-tables.mjs';
import { restTables } from './rest/tables.mjs';
import { gatingTables } from './static-gating/tables.mjs';
import { transformersTables } from './transformers/tables.mjs';

const tables = {
  ...predictorTables,
  ...pruningTables,
  ...activeExpertTables,
  ...dependencyTables,
  ...passPartTables,
  ...cudaTables,
  ...kernelTables,
  ...llamaTables,
  ...replayTables,
  ...transformersTables,
  ...placementTables,
  ...quantizedTables,
  ...benchTables,
  ...gatingTables,
  ...largeModelTables,
  ...plannerTables,
  ...restTables,
};

/** Old text whose result is gone: nothing keeps it true. */
const stale = [];

const pagesOf = (folder) =>
  readdirSync(folder, { recursive: true })
    .filter((name) => name.endsWith('.md'))
    .map((name) => `${folder}/${name}`);

for (const file of [
  'README.md',
  ...pagesOf('docs'),
  ...pagesOf('bench/notes'),
  'models/switch-mini/README.md',
  'models/switch-words/README.md',
]) {
  const text = readFileSync(file, 'utf8');
  const { text: filled, lacking } = await filledPage(text, file, tables);
  if (filled !== text) writeFileSync(file, filled);
  for (const { name, why, stale: old } of lacking) {
    if (old) stale.push(`${file}: ${name}: ${why}`);
    else console.error(`${name}: ${why}`);
  }
}

if (stale.length > 0) {
  console.error(`Old text whose result is gone; remove it or measure it again:\n  ${stale.join('\n  ')}`);
  process.exitCode = 1;
}
