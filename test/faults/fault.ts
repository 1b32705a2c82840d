/** One fault of the suite: a test that leaves a line and a row for the table, also when it fails. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { it } from 'vitest';
import { REPO } from '../integration/server-process.js';

/** Each run of the suite begins with this folder empty. */
export const RESULTS = join(REPO, 'build', 'faults');

export interface FaultResult {
  id: string;
  fault: string;
  /** What was counted and measured, in words. */
  figures: string[];
  passed: boolean;
  seconds: number;
}

/** `id` as `F22`. `run` notes figures by its argument, such as `accepted 1019`. */
export function fault(
  id: string,
  what: string,
  run: (note: (figure: string) => void) => Promise<void>,
): void {
  it(`${id} ${what}`, async () => {
    const figures: string[] = [];
    const started = performance.now();
    let passed = false;
    try {
      await run((figure) => figures.push(figure));
      passed = true;
    } finally {
      const seconds = Math.round((performance.now() - started) / 100) / 10;
      report({ id, fault: what, figures, passed, seconds });
    }
  });
}

function report(result: FaultResult): void {
  const { id, fault, figures, passed } = result;
  mkdirSync(RESULTS, { recursive: true });
  const name = `${id} ${fault}`.replaceAll(/[^A-Za-z0-9]+/g, '-');
  writeFileSync(join(RESULTS, `${name}.json`), `${JSON.stringify(result, null, 2)}\n`);
  process.stdout.write(`${id} ${fault}: ${figures.join(', ')} ${passed ? 'PASS' : 'FAIL'}\n`);
}
