// How even is the load of devices when experts are placed by what they did before? `sida bench placement` on every
// recorded trace of a directory (route_trace CSV, gzipped or not), step by step and in batches of several tokens, and
// on our own model's routing of SST-2's validation set.
//   node bench/scripts/placement/placement.mjs --traces DIR
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { parseArgs } from 'node:util';
import { laboratory } from '../../dist/support/processes.js';
import { scriptProvenance } from '../../dist/support/provenance.js';
import { recordedTraces, tracedSst2 } from '../../dist/support/routing-traces.js';
import { writeResult } from '../../dist/support/script-result.js';

const { values } = parseArgs({ options: { traces: { type: 'string' } } });

/** Tokens of a batch: a step is one; 8 leave gpt-oss, with 64 steps, four batches to measure on. */
const RECORDED = [1, 8];
/** A sentence is one batch as recorded; batches of many sentences are what a busy server runs. */
const OWN = [1, 64];

const folder = mkdtempSync(join(tmpdir(), 'sida-placement-'));
try {
  const traces = [
    ...recordedTraces(values.traces).map(({ name, file }) => ({ name, trace: file, sizes: RECORDED })),
    { name: 'switch-mini', trace: await tracedSst2(folder), sizes: OWN },
  ];
  const reports = [];
  for (const { name, trace, sizes } of traces) {
    for (const tokens of sizes) {
      console.error(`${name}, batches of ${tokens}`);
      const args = ['placement', trace, '--devices', '2,4,8', '--batch-tokens', String(tokens), '--json'];
      const report = JSON.parse(await laboratory(args, { showErrors: true }));
      const strategies = report.strategies.map(({ layers: _, ...own }) => own);
      reports.push({ name, ...report, trace: basename(trace), strategies });
    }
  }
  writeResult('placement', {
    question: 'How even is the load of devices when experts are placed by what they did before?',
    ...scriptProvenance(),
    reports,
  });
} finally {
  rmSync(folder, { recursive: true, force: true });
}
