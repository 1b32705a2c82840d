/** The report as one file with its styles and charts inside. */
import { formatBytes } from '../../../dist/text/bytes.js';
import { SYSTEMS } from '../scenarios/systems.js';
import { type BenchFile, changedTrees } from './bench-file.js';
import type { Section, Table } from './section.js';

const STYLE = `
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, Helvetica, Arial, sans-serif; color: #1a1a1a; background: #fff; margin: 0 auto; max-width: 1080px; padding: 1.5rem; }
h1 { font-size: 1.7rem; margin: 0 0 .5rem; } h2 { font-size: 1.2rem; margin: 2.5rem 0 .4rem; border-top: 1px solid #ddd; padding-top: 1rem; }
.beside { color: #555; margin: 0; } .tables, .chart { overflow-x: auto; }
.chart svg { max-width: 100%; height: auto; }
table { border-collapse: collapse; margin: .8rem 0; font-size: 13px; } caption { text-align: left; font-weight: 600; padding: .2rem 0; }
th, td { border-bottom: 1px solid #e3e3e3; padding: .25rem .6rem; text-align: right; vertical-align: top; } th { background: #f6f6f6; }
th:first-child, td:first-child, th.text, td.text { text-align: left; }
code { background: #f2f2f2; padding: 0 .25em; border-radius: 3px; } nav { columns: 2; font-size: 13px; } nav a { display: block; }
.bad { background: #fdecea; border-left: 4px solid #c0392b; padding: .5rem 1rem; } .good { background: #eaf6ec; border-left: 4px solid #2e7d32; padding: .5rem 1rem; }
.note { background: #fff7e0; border-left: 4px solid #e0a800; padding: .5rem 1rem; }`;

/** `charts`: SVG text by the section's id. */
export function htmlReport(
  file: BenchFile,
  sections: readonly Section[],
  charts: ReadonlyMap<string, string>,
): string {
  const { provenance: made, command, rounds, seed, seconds, quick } = file;
  const commits = [...new Set(file.measurements.flatMap((measurement) => measurement.commits))];
  const facts: [string, string][] = [
    ['question', file.question],
    ['command', command],
    [
      'commit',
      `${made.commit}${commits.some((each) => each !== made.commit) ? `; kept runs of ${commits.join(', ')}` : ''}`,
    ],
    ['machine', `${made.machine}, ${made.cores} cores, ${formatBytes(made.memoryBytes)}, ${made.isa}`],
    ['versions', `sida ${made.sida}, Node ${made.node}`],
    ['rounds, seed', `${rounds}, ${seed}; every figure is the median of the rounds`],
    [
      'took',
      `${Math.round(seconds)} s${quick ? ', the quick part only: few sentences, so figures are rough' : ''}`,
    ],
  ];
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>sida bench</title><style>${STYLE}</style></head><body>
<h1>sida bench</h1>
<table>${facts.map(([name, value]) => `<tr><th class="text">${name}</th><td class="text">${escapeHtml(value)}</td></tr>`).join('\n')}</table>
${verdict(file)}
${list('note', 'Measured in a tree with changes, which no commit has', changedTrees(file))}
${list('note', 'Warnings', file.warnings)}
${list(
  'note',
  'Left out',
  file.skipped.map(({ what, why }) => `${what}: ${why}`),
)}
<nav>${sections.map(({ id, title }) => `<a href="#${id}">${inline(title)}</a>`).join('\n')}</nav>
<h2>Systems</h2>
${tableHtml({ head: ['system', 'what it does'], rows: SYSTEMS.map(({ name, about }) => [name, about]) })}
<h2>Links below the device</h2>
${tableHtml({
  head: ['model', 'disk, read in a row', 'disk, expert by expert'],
  rows: file.models.map(({ model, disk }) => [
    model.name,
    `${(disk.sequential / 1e9).toFixed(2)} GB/s`,
    `${(disk.experts / 1e9).toFixed(2)} GB/s`,
  ]),
})}
<p>The disk is read past the page cache. A simulated link slows copies from host memory down to its rate; wherever one was used its name says so.</p>
${sections.map((section) => sectionHtml(section, charts.get(section.id))).join('\n')}
</body></html>
`;
}

function verdict({ differing, comparisons }: BenchFile): string {
  if (differing.length > 0) {
    return `<p class="bad"><b>Answers differ</b> from the resident run, bit for bit, in: ${escapeHtml(differing.join(', '))}</p>`;
  }
  return `<p class="good">All ${comparisons} compared runs of exact systems gave the bits of the resident run.</p>`;
}

function list(kind: string, title: string, items: readonly string[]): string {
  if (items.length === 0) return '';
  const shown = items.map((item) => `<li>${escapeHtml(item)}</li>`).join('');
  return `<div class="${kind}"><b>${title}</b><ul>${shown}</ul></div>`;
}

function sectionHtml(
  { id, title, beside, about, sentences = [], tables, reading }: Section,
  chart: string | undefined,
): string {
  const paragraphs = (texts: readonly string[]) => texts.map((text) => `<p>${inline(text)}</p>`).join('\n');
  return `<section id="${id}"><h2>${inline(title)}</h2>
${beside === undefined ? '' : `<p class="beside">beside ${inline(beside)}</p>`}
${paragraphs(about)}
${sentences.length === 0 ? '' : `<ol>${sentences.map((text) => `<li>${inline(text)}</li>`).join('\n')}</ol>`}
${chart === undefined ? '' : `<div class="chart">${chart}</div>`}
<div class="tables">${tables.map(tableHtml).join('\n')}</div>
${paragraphs(reading)}</section>`;
}

function tableHtml({ caption, head, rows }: Table): string {
  const cells = (tag: string, values: readonly string[]) =>
    `<tr>${values.map((value) => `<${tag}${/\d/.test(value) && value.length < 40 ? '' : ' class="text"'}>${inline(value)}</${tag}>`).join('')}</tr>`; // biome-ignore format: one line
  return `<table>${caption === undefined ? '' : `<caption>${inline(caption)}</caption>`}<thead>${cells('th', head)}</thead><tbody>${rows.map((row) => cells('td', row)).join('\n')}</tbody></table>`; // biome-ignore format: one line
}

/** Escaped, with `code` in backticks. */
function inline(text: string): string {
  return escapeHtml(text).replace(/`([^`]+)`/g, '<code>$1</code>');
}

function escapeHtml(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}
