/** The report of `sida bench`: Markdown with the figures of each section as tables. */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { BENCH_FILE, type BenchFile, checkBounds } from './bench-file.js';
import { renderSvg } from './charts.js';
import { elementTypesSection } from './element-types.js';
import { fidelitySections } from './fidelity.js';
import { markdownTable } from './format.js';
import { memorySection, needsSection } from './needs.js';
import type { Section } from './section.js';
import { paperSystems, predictionTable, systemsSections } from './systems.js';

/** Sections with rows. Throws cannot_run if a measurement beats a bound. */
export function sectionsOf({ measurements, models, fidelity }: BenchFile): Section[] {
  checkBounds(measurements);
  return [
    predictionTable(measurements),
    paperSystems(measurements),
    needsSection({ models }),
    memorySection({ models }),
    ...fidelitySections(fidelity),
    elementTypesSection(measurements),
    ...systemsSections(measurements),
  ].filter(({ tables }) => tables.some(({ rows }) => rows.length > 0));
}

/** A section without its title and chart. */
export function sectionText({ beside, about, tables }: Section): string {
  const above = [beside && `Beside ${beside}.`, about].filter((text) => text !== undefined);
  return [...above, ...tables.map(markdownTable)].join('\n\n');
}

/** `file` says where the figures come from: a command, a commit and a machine. */
export function sourceOf({ command, provenance, rounds, measurements }: BenchFile): string {
  const { commit, machine, cores, isa } = provenance;
  const commits = [...new Set(measurements.flatMap((own) => own.commits))].join(', ') || commit;
  const medians = measurements.length === 0 ? '' : ` · ${rounds === 1 ? 'one round' : `medians of ${rounds} rounds`}`;
  return `\`${shortCommand(command)}\`\ncommit ${commits} · ${machine}, ${cores} cores · ${isa}${medians}`;
}

/** Without the patterns of a run that names many, which the JSON has. Where the data lay says nothing. */
function shortCommand(command: string): string {
  const patterns = command.match(/ --only (?:'[^']*'|\S+)/g) ?? [];
  const brief = patterns.length > 4 ? patterns.reduce((text, pattern) => text.replace(pattern, ''), command) : command;
  const left = patterns.length > 4 ? ` --only … (${patterns.length} patterns)` : '';
  return `${brief.replace(/--data \S+/, '--data DIR')}${left}`;
}

/** The sections as parts of a page; their charts go to `charts`, a folder beside it. */
export async function sectionParts(
  sections: readonly (Section & { source?: string })[],
  charts: string,
): Promise<string[]> {
  rmSync(charts, { recursive: true, force: true });
  mkdirSync(charts, { recursive: true });
  const parts: string[] = [];
  for (const section of sections) {
    parts.push(`## ${section.title}`);
    if (section.chart !== undefined) {
      writeFileSync(join(charts, `${section.id}.svg`), await renderSvg(section.chart));
      parts.push(`![${section.title}](charts/${section.id}.svg)`);
    }
    parts.push(sectionText(section), ...(section.source === undefined ? [] : [section.source]));
  }
  return parts;
}

/** Markdown of a whole result in `out`. */
export async function writeReport(file: BenchFile, out: string): Promise<string[]> {
  const parts = [`# ${file.question}`, sourceOf(file)];
  if (file.differing.length > 0) parts.push(`ANSWERS DIFFER from the resident run: ${file.differing.join(', ')}`);
  parts.push(...(await sectionParts(sectionsOf(file), join(out, 'charts'))));
  for (const { what, why } of file.skipped) parts.push(`Left out: ${what}: ${why}`);
  parts.push(...file.warnings);
  writeFileSync(join(out, BENCH_FILE), `${JSON.stringify(file)}\n`);
  writeFileSync(join(out, 'report.md'), `${parts.join('\n\n')}\n`);
  return [BENCH_FILE, 'report.md'];
}
