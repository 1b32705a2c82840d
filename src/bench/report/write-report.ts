/** Writes a result and all that is generated from it. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { BenchResult } from '../result.js';

/** Names of the files, inside `out`. */
export async function writeReport(result: BenchResult, out: string): Promise<string[]> {
  writeFileSync(join(out, 'bench.json'), `${JSON.stringify(result)}\n`);
  return ['bench.json'];
}
