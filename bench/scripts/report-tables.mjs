// Sections of `sida bench`'s report as Markdown: `bench-<section>` is its chart, drawn into docs/charts/, its sentences
// and its tables.
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { wrapped } from '../../dist/text/wrapped.js';
import { renderSvg } from '../dist/charts/svg.js';
import { BENCH_FILE, checkTrees, readBenchFile } from '../dist/report/bench-file.js';
import { budgetsTable } from '../dist/report/budgets-table.js';
import { batchesTable, paperSystemsTable } from '../dist/report/headline-section.js';
import { joinedFile } from '../dist/report/joined-file.js';
import { markdownTable } from '../dist/report/markdown.js';
import { sectionsOf } from '../dist/report/sections.js';
import { SWITCH_MINI, SWITCH_WORDS } from '../dist/scenarios/models.js';

/** The models that a run measured or studied. */
const namesOf = ({ models, fidelity }) => [
  ...new Set([...models.map(({ model }) => model.name), ...fidelity.flatMap(({ model }) => model ?? [])]),
];
/** Sections with figures of the studies of fidelity, and those that have no others. */
const STUDIED = /^(meaning|targets|budgets|paper-)/;
const OF_STUDIES = /^paper-/;
/** Sections that count every row, whichever they name. */
const OF_ALL = /^(meaning|targets)$/;
/** Sections of one group of rows, that only runs with such rows are a source of. */
const OF_RUNS = /^(systems|throughput|latency|pareto|breakdown)-/;
/** Sections that compare times, and that one run measured as a whole: rows of two runs would not compare. */
const OF_ONE_RUN = /^(element-types|rest-)/;

/** Batches, random arrivals and other element types, beside what the systems' run measured. */
const CONDITIONS = 'bench/results/conditions';
/** Of runs that measured a part each; where two measured the same, the later counts. */
const RESULTS = [CONDITIONS, 'bench/results/systems', 'bench/results/fidelity'];
const CHARTS = 'docs/charts';
/** Without the patterns of a run that names many: the JSON has them all. Where the data lay says nothing. */
function shortCommand(command, folder) {
  const patterns = command.match(/ --only (?:'[^']*'|\S+)/g) ?? [];
  const brief =
    patterns.length > 4 ? patterns.reduce((text, pattern) => text.replace(pattern, ''), command) : command;
  const shown = `\`${brief.replace(/--data \S+/, '--data DIR')}\``;
  return brief === command
    ? shown
    : `${shown}, ${patterns.length} patterns of \`--only\` as in ${folder}/${BENCH_FILE}`;
}

/** Whether a later run has not replaced all studies of fidelity of a run. */
function suppliesStudies(all, at) {
  const keysOf = ({ file }) => file.fidelity.map(({ model = SWITCH_MINI.name, data }) => `${model}/${data}`);
  const later = all.slice(at + 1).flatMap(keysOf);
  return keysOf(all[at]).some((key) => !later.includes(key));
}

/** Of the runs whose models `text` names: tables of several runs say which of them measured what. */
function sourceText(all, text, id) {
  const files = all.filter(({ file }, at) => {
    if (OF_STUDIES.test(id)) return suppliesStudies(all, at);
    if (id === 'budgets') return file.fidelity.length > 0 || namesOf(file).includes(SWITCH_WORDS.name);
    return STUDIED.test(id) || file.measurements.length > 0;
  });
  const named = OF_ALL.test(id)
    ? []
    : files.filter(({ file }) => namesOf(file).some((name) => text.includes(name)));
  const used = named.length > 0 ? named : files;
  return used.map((each) => sourceOf(each, used.length > 1)).join('\n');
}

function sourceOf({ folder, file }, withModels) {
  const { command, provenance: made, rounds, measurements } = file;
  const names = namesOf(file).join(', ');
  const models = withModels ? `${wrapped(`Of ${names}:`, 120).join('\n')}\n` : '';
  const commits = [...new Set(measurements.flatMap((measurement) => measurement.commits))].join(', ');
  const medians =
    measurements.length > 0 ? ` · ${rounds === 1 ? 'one round' : `medians of ${rounds} rounds`}` : '';
  const machine = `${made.machine}, ${made.cores} cores · ${made.isa}`;
  return `${models}${shortCommand(command, folder)}\ncommit ${commits || made.commit} · ${machine}${medians}`;
}

/** `page` is the document that the section stands in: the chart's link starts there. */
async function sectionText(files, { id, title, beside, sentences = [], chart, tables }, page) {
  const parts = tables.map(markdownTable);
  if (sentences.length > 0) {
    const lines = sentences.flatMap((text, i) =>
      wrapped(text, 117).map((line, at) => `${at === 0 ? `${i + 1}.` : '  '} ${line}`),
    );
    parts.unshift(lines.join('\n'));
  }
  if (chart !== undefined) {
    mkdirSync(CHARTS, { recursive: true });
    writeFileSync(join(CHARTS, `${id}.svg`), await renderSvg(chart));
    parts.unshift(`![${title}](${relative(dirname(page), join(CHARTS, `${id}.svg`))})`);
  }
  if (beside !== undefined) parts.unshift(`Beside ${beside}.`);
  return [...parts, sourceText(files, parts.join('\n'), id)].join('\n\n');
}

const files = RESULTS.filter((folder) => existsSync(join(folder, BENCH_FILE))).map((folder) => {
  const file = readBenchFile(folder);
  checkTrees(file, join(folder, BENCH_FILE));
  return { folder, file };
});

/** Empty where `sida bench` has not run. */
export const benchTables = {};
if (files.length > 0) {
  const joined = joinedFile(files.map(({ file }) => file));
  const { tables, notes } = budgetsTable(joined);
  if (tables.length > 0)
    benchTables['bench-budgets'] = () => {
      const parts = [...tables.map(markdownTable), ...notes];
      return [...parts, sourceText(files, `${SWITCH_WORDS.name} ${parts.join('\n')}`, 'budgets')].join(
        '\n\n',
      );
    };
  for (const [name, make] of [
    ['paper-systems', paperSystemsTable],
    ['batches', batchesTable],
  ]) {
    const own = files.filter(({ file }) => make(file).rows.length > 0);
    const text = markdownTable(make(joined));
    if (own.length > 0) benchTables[`bench-${name}`] = () => `${text}\n\n${sourceText(own, text, name)}`;
  }
  for (const section of sectionsOf(joined)) {
    const own = OF_RUNS.test(section.id)
      ? files.filter(({ file }) => sectionsOf(file).some(({ id }) => id === section.id))
      : files;
    benchTables[`bench-${section.id}`] = (page) => sectionText(own, section, page);
  }
  const one = files.filter(({ folder }) => folder === CONDITIONS);
  for (const section of one.flatMap(({ file }) => sectionsOf(file)).filter(({ id }) => OF_ONE_RUN.test(id)))
    benchTables[`bench-${section.id}`] = (page) => sectionText(one, section, page);
}
