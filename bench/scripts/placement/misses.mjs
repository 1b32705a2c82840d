// What does balancing do to misses? Experts are placed on devices by the first half of a recorded trace; every device
// caches those that were placed on it, and policies replay the second half: "Towards MoE Deployment", sections VI and
// VII. On every recorded trace of a directory, and on our own model's routing of SST-2's validation set.
//   node bench/scripts/placement/misses.mjs --traces DIR [--devices 2,4,8] [--cache 10%,25%] [--only qwen,gemma]
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { parseShare } from '../../../dist/text/bytes.js';
import { deviceMisses, PLACED_BY } from '../../dist/placement/device-misses.js';
import { openTrace } from '../../dist/replay/open-trace.js';
import { scriptProvenance } from '../../dist/support/provenance.js';
import { recordedTraces, tracedSst2 } from '../../dist/support/routing-traces.js';
import { writeResult } from '../../dist/support/script-result.js';

const { values } = parseArgs({
  options: {
    traces: { type: 'string' },
    devices: { type: 'string', default: '2,4,8' },
    cache: { type: 'string', default: '10%,25%' },
    only: { type: 'string' },
  },
});
const LEARN = 0.5;
const POLICIES = ['lru', 'expert-buffering', 'belady'];

const folder = mkdtempSync(join(tmpdir(), 'sida-placement-'));

function* sources() {
  for (const { name, file } of recordedTraces(values.traces)) yield { name, open: async () => file };
  yield { name: 'switch-mini', open: () => tracedSst2(folder) };
}

function missesOf(trace) {
  const all = trace.layers.length * trace.experts;
  return values.devices.split(',').flatMap((count) =>
    values.cache.split(',').flatMap((cache) =>
      POLICIES.map((policy) => {
        const devices = Number(count);
        const slots = Math.round(parseShare(cache) * all);
        const options = { devices, slots, policy, learn: LEARN };
        const placements = PLACED_BY.map((placedBy) => deviceMisses(trace, placedBy, options));
        return { devices, cache, slots, policy, placements };
      }),
    ),
  );
}

try {
  const reports = [];
  for (const { name, open } of sources()) {
    if (values.only !== undefined && !values.only.split(',').includes(name)) continue;
    console.error(name);
    const trace = await openTrace(await open(), { expertBytes: 1 });
    const learned = Math.ceil(LEARN * trace.batches.length);
    const passes = trace.batches.slice(learned).reduce((sum, batch) => sum + batch.passes.length, 0);
    reports.push({
      name,
      ...{ layers: trace.layers.length, experts: trace.experts, learned, passes },
      batches: trace.batches.length - learned,
      runs: missesOf(trace),
    });
  }
  writeResult('placement-misses', {
    question: 'What does balancing the load of devices do to the misses of their caches?',
    ...scriptProvenance(),
    control: 'index and round-robin place without looking at the load; belady is the floor of each placement',
    reports,
  });
} finally {
  rmSync(folder, { recursive: true, force: true });
}
