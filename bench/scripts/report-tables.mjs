// Sections of `sida bench`'s report as Markdown: `bench-<section>` is its chart, copied to docs/charts/, and its
// tables.
import { copyFileSync, existsSync, mkdirSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { BENCH_FILE, readBenchFile } from '../dist/report/bench-file.js';
import { bytes, percent, shareName, times } from '../dist/report/format.js';
import { markdownTable } from '../dist/report/markdown.js';
import { sectionsOf } from '../dist/report/sections.js';
import { LOOKAHEAD } from '../dist/scenarios/scenarios.js';

const RESULTS = 'bench/results/systems';
const CHARTS = 'docs/charts';

/** Without the patterns of a run that names many: the JSON has them all. Where the data lay says nothing. */
function shortCommand(command) {
  const patterns = command.match(/ --only (?:'[^']*'|\S+)/g) ?? [];
  const brief =
    patterns.length > 4 ? patterns.reduce((text, pattern) => text.replace(pattern, ''), command) : command;
  const shown = `\`${brief.replace(/--data \S+/, '--data DIR')}\``;
  return brief === command
    ? shown
    : `${shown}, ${patterns.length} patterns of \`--only\` as in ${RESULTS}/${BENCH_FILE}`;
}

function sourceText({ command, provenance: made, rounds, measurements }) {
  const commits = [...new Set(measurements.flatMap((measurement) => measurement.commits))].join(', ');
  return `${shortCommand(command)}\ncommit ${commits || made.commit} · ${made.machine}, ${made.cores} cores · ${made.isa} · medians of ${rounds} rounds`;
}

/** `page` is the document that the section stands in: the chart's link starts there. */
function sectionText(file, { id, title, beside, chart, tables }, page) {
  const parts = tables.map(markdownTable);
  if (chart !== undefined) {
    mkdirSync(CHARTS, { recursive: true });
    copyFileSync(join(RESULTS, 'charts', `${id}.svg`), join(CHARTS, `${id}.svg`));
    parts.unshift(`![${title}](${relative(dirname(page), join(CHARTS, `${id}.svg`))})`);
  }
  if (beside !== undefined) parts.unshift(`Beside ${beside}.`);
  return [...parts, sourceText(file)].join('\n\n');
}

/** What a budget costs with switch-mini, for the README. */
function budgetsTable(file) {
  const measurements = file.measurements.filter(
    ({ scenario: { model, data, link, batch, arrivals, lookahead } }) =>
      model === 'switch-mini' &&
      data === 'sst2' &&
      link === 'disk' &&
      batch === 1 &&
      !arrivals &&
      lookahead === LOOKAHEAD,
  );
  const resident = measurements.find(({ system }) => system === 'resident');
  const network = measurements.some(({ system }) => system === 'lstm') ? 'lstm' : 'attention';
  const own = measurements.filter(({ system }) => system === network);
  const rows = [resident, ...own].map((measurement) => [
    shareName(measurement.scenario.share),
    bytes(measurement.budgetBytes),
    `${measurement.slots} of ${measurement.experts}`,
    percent(measurement.rightLabels / measurement.sentences),
    measurement.digest === resident.digest ? 'identical' : 'DIFFERENT',
    times(measurement.p50Ms / resident.p50Ms),
    bytes(Math.round(measurement.bytesMoved / measurement.sentences)),
  ]);
  const head = [
    'budget',
    'device memory',
    'experts that fit',
    'right answers',
    'scores, bit for bit',
    'median time / resident',
    'bytes loaded per sentence',
  ];
  const { provenance: made, rounds } = file;
  return `${markdownTable({ head, rows })}\n\n\`sida bench\`\ncommit ${resident.commits.join(', ')} · ${made.machine}, ${made.cores} cores · ${made.isa} · medians of ${rounds} rounds`;
}

/** Empty where `sida bench` has not run. */
export const benchTables = {};
if (existsSync(join(RESULTS, BENCH_FILE))) {
  const file = readBenchFile(RESULTS);
  benchTables['bench-budgets'] = () => budgetsTable(file);
  for (const section of sectionsOf(file))
    benchTables[`bench-${section.id}`] = (page) => sectionText(file, section, page);
}
