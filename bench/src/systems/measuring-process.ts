/** Process entry: one run of a measurement. Reads its work on standard input, prints the sample. */
import { readFileSync } from 'node:fs';
import { describeFailure } from '../../../dist/cli/exit.js';
import { systemNamed } from '../scenarios/systems.js';
import { runOnEngine } from './engine-driver.js';
import { GpuMemoryWatch } from './gpu-memory.js';
import { runOnThreads } from './threads-driver.js';
import type { MeasurementWork, Sample } from './work.js';

try {
  const work = JSON.parse(readFileSync(0, 'utf8')) as MeasurementWork;
  const watch = work.flags.device === 'cuda' ? await GpuMemoryWatch.start() : undefined;
  const onThreads = systemNamed(work.system).driver === 'threads';
  const measured = onThreads ? await runOnThreads(work) : runOnEngine(work);
  const sample: Sample = { ...measured, ...watch?.stop() };
  // The threads of `sida serve` do not end by themselves.
  process.stdout.write(JSON.stringify(sample), () => process.exit(0));
} catch (error) {
  process.stderr.write(`${describeFailure(error).join('\n')}\n`);
  process.exit(1);
}
