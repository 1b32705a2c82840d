// Sections of `sida bench`'s report for docs/: `rig-<section>` is its chart, copied to docs/charts/, and its tables.
import { copyFileSync, existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { BENCH_FILE, readBenchFile } from '../dist/bench/report/bench-file.js';
import { markdownTable } from '../dist/bench/report/markdown.js';
import { sectionsOf } from '../dist/bench/report/sections.js';

const RESULTS = 'bench/results/rig';
const CHARTS = 'docs/charts';

/** A run of chosen cells may name a hundred patterns: the JSON has them all. */
function shortCommand(command) {
  const patterns = command.match(/ --only (?:'[^']*'|\S+)/g) ?? [];
  if (patterns.length <= 4) return `\`${command}\``;
  const rest = patterns.slice(2).reduce((text, pattern) => text.replace(pattern, ''), command);
  return `\`${rest} …\` (${patterns.length} patterns; ${RESULTS}/${BENCH_FILE} has them)`;
}

function sectionText(file, { id, title, beside, chart, tables }) {
  const { command, provenance: made, rounds } = file;
  const commits = [...new Set(file.cells.flatMap((cell) => cell.commits))].join(', ');
  const source = `${shortCommand(command)} · commit ${commits || made.commit} · ${made.machine}, ${made.cores} cores · ${made.isa} · medians of ${rounds} rounds`;
  const parts = tables.map(markdownTable);
  if (chart !== undefined) {
    mkdirSync(CHARTS, { recursive: true });
    copyFileSync(join(RESULTS, 'charts', `${id}.svg`), join(CHARTS, `${id}.svg`));
    parts.unshift(`![${title}](charts/${id}.svg)`);
  }
  if (beside !== undefined) parts.unshift(`Beside ${beside}.`);
  return [...parts, source].join('\n\n');
}

/** Nothing where the rig has not run. */
export const rigTables = {};
if (existsSync(join(RESULTS, BENCH_FILE))) {
  const file = readBenchFile(RESULTS);
  for (const section of sectionsOf(file)) rigTables[`rig-${section.id}`] = () => sectionText(file, section);
}
