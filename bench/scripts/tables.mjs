// Writes the tables of README.md, docs/ and bench/notes/ from bench/results/, between <!-- table NAME --> marks.
//   node bench/scripts/tables.mjs
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { activeExpertTables } from './active-experts/tables.mjs';
import { pruningTables } from './batch-pruning/tables.mjs';
import { cudaTables } from './cuda/tables.mjs';
import { dependencyTables } from './dependency/tables.mjs';
import { diskTables } from './disk/tables.mjs';
import { quantizedTables } from './element-types/tables.mjs';
import { kernelTables } from './kernels/tables.mjs';
import { largeModelTables } from './larger-than-memory/tables.mjs';
import { passPartTables } from './pass-parts/tables.mjs';
import { placementTables } from './placement/tables.mjs';
import { predictorTables } from './predictor/tables.mjs';
import { profileTables } from './profile/tables.mjs';
import { replayTables } from './replay/tables.mjs';
import { benchTables } from './report-tables.mjs';
import { restTables } from './rest/tables.mjs';
import { gatingTables } from './static-gating/tables.mjs';
import { transformersTables } from './transformers/tables.mjs';

const tables = {
  ...predictorTables,
  ...profileTables,
  ...pruningTables,
  ...activeExpertTables,
  ...dependencyTables,
  ...passPartTables,
  ...cudaTables,
  ...diskTables,
  ...kernelTables,
  ...replayTables,
  ...transformersTables,
  ...placementTables,
  ...quantizedTables,
  ...benchTables,
  ...gatingTables,
  ...largeModelTables,
  ...restTables,
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
  'models/switch-words/README.md',
]) {
  const text = readFileSync(file, 'utf8');
  const filled = text.replace(
    /(<!-- table ([\w-]+) -->\n)([\s\S]*?)(<!-- end -->)/g,
    (_, begin, name, before, end) => `${begin}${filledTable(name, before, file)}${end}`,
  );
  if (filled !== text) writeFileSync(file, filled);
}
