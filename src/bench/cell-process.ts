/** Process entry: one run of a cell. Reads its work on standard input, prints the sample. */
import { readFileSync } from 'node:fs';
import { describeFailure } from '../cli/exit.js';
import type { CellWork } from './cell-work.js';
import { runOnEngine } from './engine-driver.js';
import { runOverRest } from './rest-driver.js';
import { systemNamed } from './systems.js';
import { runOnThreads } from './threads-driver.js';

try {
  const work = JSON.parse(readFileSync(0, 'utf8')) as CellWork;
  const onThreads = systemNamed(work.system).driver === 'threads';
  const sample =
    work.arrivals !== undefined
      ? await runOverRest(work, work.arrivals)
      : onThreads
        ? await runOnThreads(work)
        : runOnEngine(work);
  // The threads of `sida serve` have no reason to end by themselves.
  process.stdout.write(JSON.stringify(sample), () => process.exit(0));
} catch (error) {
  process.stderr.write(`${describeFailure(error)}\n`);
  process.exit(1);
}
