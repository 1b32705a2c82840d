// How even is the load of devices when experts are placed by what they did before? `sida bench placement` on every
// recorded trace of a directory (route_trace CSV, gzipped or not), step by step and in batches of several tokens, and on
// our own model's routing of SST-2's validation set.
//   node bench/scripts/placement/placement.mjs --traces DIR
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { parseArgs } from 'node:util';
import { commandText, machine, writeResult } from '../bench-result.mjs';
import { recordedTraces, sida, tracedSst2 } from '../replay/traces.mjs';

const { values } = parseArgs({ options: { traces: { type: 'string' } } });

/** Tokens of a batch: a step is one; 8 leave gpt-oss, with 64 steps, four batches to measure on. */
const RECORDED = [1, 8];
/** A sentence is one batch as recorded; batches of many sentences are what a busy server runs. */
const OWN = [1, 64];

const folder = mkdtempSync(join(tmpdir(), 'sida-placement-'));
try {
  const traces = [
    ...recordedTraces(values.traces).map(({ name, file }) => ({ name, trace: file, sizes: RECORDED })),
    { name: 'switch-mini', trace: tracedSst2(folder), sizes: OWN },
  ];
  const reports = traces.flatMap(({ name, trace, sizes }) =>
    sizes.map((tokens) => {
      console.error(`${name}, batches of ${tokens}`);
      const args = ['--devices', '2,4,8', '--batch-tokens', String(tokens), '--json'];
      const report = JSON.parse(sida('bench', 'placement', trace, ...args));
      const strategies = report.strategies.map(({ layers: _, ...own }) => own);
      return { name, ...report, trace: basename(trace), strategies };
    }),
  );
  writeResult('placement', {
    question: 'How even is the load of devices when experts are placed by what they did before?',
    command: commandText('placement.mjs'),
    ...machine(),
    reports,
  });
} finally {
  rmSync(folder, { recursive: true, force: true });
}
