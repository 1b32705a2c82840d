// What does each policy move over real routing? `sida bench replay` on every recorded trace of a directory (route_trace
// CSV, gzipped or not), and on our own model's routing of SST-2's validation set; one cache for all layers, and one
// each.
//   node bench/scripts/replay/replay-traces.mjs --traces DIR [--only qwen,switch-mini] [--svg docs/charts]
// --svg: the charts of the first trace go there.
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { parseArgs } from 'node:util';
import { MINI_DIRECTORY } from '../../dist/support/paths.js';
import { laboratory, sida } from '../../dist/support/processes.js';
import { scriptProvenance } from '../../dist/support/provenance.js';
import { recordedTraces, tracedSst2 } from '../../dist/support/routing-traces.js';
import { writeResult } from '../../dist/support/script-result.js';

const { values } = parseArgs({
  options: { traces: { type: 'string' }, only: { type: 'string' }, svg: { type: 'string' } },
});

const GRID = ['--cache', '5%,10%,20%,25%,50%', '--lookahead', '0,1,4,16'];
const BLIND = 'fifo,lru,lfu,expert-buffering,none,static-hot,belady';
const folder = mkdtempSync(join(tmpdir(), 'sida-replay-'));

/** Recorded traces by name, and ours. */
function* sources() {
  for (const { name, file } of recordedTraces(values.traces)) yield { name, open: () => [file] };
  const open = async () => {
    const { plan } = JSON.parse(await sida(['plan', MINI_DIRECTORY, '--json']));
    return [await tracedSst2(folder), '--expert-bytes', String(plan.slot)];
  };
  yield { name: 'switch-mini', open };
}

try {
  let charts = values.svg;
  for (const { name, open } of sources()) {
    if (values.only !== undefined && !values.only.split(',').includes(name)) continue;
    console.error(name);
    const trace = await open();
    const replay = async (...args) => {
      const all = ['replay', ...trace, ...GRID, '--json', ...args];
      const report = JSON.parse(await laboratory(all, { showErrors: true }));
      return { ...report, trace: basename(trace[0]) };
    };
    const result = {
      question: 'What does each policy move over recorded routing?',
      ...scriptProvenance(),
      shared: await replay(...(charts === undefined ? [] : ['--svg', join(folder, 'charts')])),
      perLayer: await replay('--per-layer', '--policies', BLIND),
    };
    if (charts !== undefined) {
      for (const chart of ['miss-rate', 'bytes']) {
        copyFileSync(join(folder, 'charts', `${chart}.svg`), join(charts, `replay-${chart}.svg`));
      }
      charts = undefined;
    }
    writeResult(`replay-${name}`, result);
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
