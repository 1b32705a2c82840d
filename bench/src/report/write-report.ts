/** Writes a result and everything that is generated from it. */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { renderSvg } from '../charts/svg.js';
import { BENCH_FILE, type BenchFile } from './bench-file.js';
import { htmlReport } from './html.js';
import { sectionsOf } from './sections.js';

/** Returns the names of the files in `out`. */
export async function writeReport(file: BenchFile, out: string): Promise<string[]> {
  const sections = sectionsOf(file);
  const charts = new Map<string, string>();
  rmSync(join(out, 'charts'), { recursive: true, force: true });
  mkdirSync(join(out, 'charts'), { recursive: true });
  writeFileSync(join(out, BENCH_FILE), `${JSON.stringify(file)}\n`);
  for (const { id, chart } of sections) {
    if (chart === undefined) continue;
    const svg = await renderSvg(chart);
    charts.set(id, svg);
    writeFileSync(join(out, 'charts', `${id}.svg`), svg);
  }
  writeFileSync(join(out, 'report.html'), htmlReport(file, sections, charts));
  return [BENCH_FILE, 'report.html', ...[...charts.keys()].map((id) => join('charts', `${id}.svg`))];
}
