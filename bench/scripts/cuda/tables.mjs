// Tables of `npm run bench:cuda` for docs/cuda.md, one of each GPU that has a file in bench/results/cuda/.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { CUDA_TABLES } from '../../dist/report/cuda-tables.js';
import { markdownTable } from '../../dist/report/markdown.js';

const RESULTS = 'bench/results/cuda';

function reports() {
  const all = readdirSync(RESULTS)
    .filter((name) => name.endsWith('.json') && name !== 'bench.json')
    .map((name) => JSON.parse(readFileSync(join(RESULTS, name), 'utf8')));
  const real = all.filter(({ format, gpu }) => format === 'sida-cuda-bench' && !gpu.emulated);
  if (real.length > 0) return real;
  throw Object.assign(new Error('no result of a GPU'), { code: 'ENOENT', path: `${RESULTS}/*.json` });
}

function text(table) {
  return reports()
    .map((report) => {
      const { command, commit, machine, gpu } = report;
      const source = `\`${command}\`\ncommit ${commit} · ${gpu.name} · ${machine}`;
      return `${markdownTable(table(report))}\n\n${source}`;
    })
    .join('\n\n');
}

export const cudaTables = Object.fromEntries(
  Object.entries(CUDA_TABLES).map(([name, table]) => [name, () => text(table)]),
);
