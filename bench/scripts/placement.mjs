// How even is the load of devices when experts are placed by what they did before? "Towards MoE Deployment",
// section VII, over recorded traces and our own model's routing.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { comparePlacements } from '../dist/placement/compare-placements.js';
import { openTrace } from '../dist/replay/open-trace.js';
import { scriptProvenance } from '../dist/support/provenance.js';
import { recordedTraces, tracedSst2 } from '../dist/support/routing-traces.js';
import { scriptOptions, writeResult } from '../dist/support/script.js';

const HELP = `node bench/scripts/placement.mjs [--traces DIR] [--only qwen] [--devices 2,4,8] [--quick]
DIR holds route_trace CSV files, gzipped or not; switch-mini's routing of SST-2 is traced here. The result is
bench/results/placement.json.`;

const options = scriptOptions(HELP, {
  traces: undefined,
  only: undefined,
  devices: '2,4,8',
  quick: false,
});
const devices = options.devices.split(',').map(Number);
/** The first half of a trace places the experts, the second is measured. */
const LEARN = 0.5;
const folder = mkdtempSync(join(tmpdir(), 'sida-placement-'));

try {
  // A recorded step is one token: 8 leave the shortest trace, with 64 steps, four batches to measure on.
  const sources = [
    ...recordedTraces(options.traces).map(({ name, file }) => ({ name, open: () => file, sizes: [1, 8] })),
    { name: 'switch-mini', open: () => tracedSst2(folder), sizes: [1, 64] },
  ];
  const reports = [];
  for (const { name, open, sizes } of sources) {
    if (options.only !== undefined && !options.only.split(',').includes(name)) continue;
    console.error(name);
    const trace = await openTrace(await open());
    reports.push({
      name,
      loads: sizes.map((batchTokens) => comparePlacements(trace, { devices, learn: LEARN, batchTokens })),
    });
  }
  const question = 'How even is the load of devices when experts are placed by what they did before?';
  writeResult('placement', { question, ...scriptProvenance(), reports }, options.quick);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
