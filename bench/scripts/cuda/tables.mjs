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

/** What of a report each table shows. Programs that ran by themselves have a command and a commit of their own. */
const PARTS = { 'cuda-machine': 'limits', 'cuda-products': 'gemm', 'cuda-kernels': 'rows' };

function text(name, table) {
  return reports()
    .map((report) => ({ report, made: table(report) }))
    .filter(({ made }) => made.rows.length > 0)
    .map(({ report, made }) => {
      const { machine, gpu } = report;
      const { command, commit } = report.parts?.[PARTS[name]] ?? report;
      const source = `\`${command}\`\ncommit ${commit} · ${gpu.name} · ${machine}`;
      return `${markdownTable(made)}\n\n${source}`;
    })
    .join('\n\n');
}

export const cudaTables = Object.fromEntries(
  Object.entries(CUDA_TABLES).map(([name, table]) => [name, () => text(name, table)]),
);
