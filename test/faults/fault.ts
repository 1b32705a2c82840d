/** One fault of the suite: a test that leaves a line and a row for the table, also when it fails. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { it } from 'vitest';
import { REPO } from '../support/server-process.js';

/** Each run of the suite begins with this folder empty. */
export const RESULTS = join(REPO, 'build', 'faults');

/**
 * A measured value and what it may be at most, or with `least` at least. A busy machine misses it; no answer is
 * wrong.
 */
export interface Limit {
  what: string;
  value: number;
  limit: number;
  unit: string;
  least: boolean;
  met: boolean;
}

export interface FaultResult {
  id: string;
  fault: string;
  /** What was counted, in words. */
  figures: string[];
  limits: Limit[];
  /** Nothing was lost, wrong or dead; the limits are beside it. */
  passed: boolean;
  seconds: number;
}

export interface FaultReport {
  /** A figure in words, such as `accepted 1019`. */
  note(figure: string): void;
  atMost(what: string, value: number, limit: number, unit: string): void;
  atLeast(what: string, value: number, limit: number, unit: string): void;
}

/** `id` as `F22`. What must hold on any machine `run` expects; what depends on its speed it gives as a limit. */
export function fault(id: string, what: string, run: (report: FaultReport) => Promise<void>): void {
  it(`${id} ${what}`, async () => {
    const figures: string[] = [];
    const limits: Limit[] = [];
    const started = performance.now();
    let passed = false;
    try {
      await run({
        note: (figure) => figures.push(figure),
        atMost: (name, value, limit, unit) =>
          limits.push({ what: name, value, limit, unit, least: false, met: value <= limit }),
        atLeast: (name, value, limit, unit) =>
          limits.push({ what: name, value, limit, unit, least: true, met: value >= limit }),
      });
      passed = true;
    } finally {
      const seconds = Math.round((performance.now() - started) / 100) / 10;
      leave({ id, fault: what, figures, limits, passed, seconds });
    }
  });
}

function leave(result: FaultResult): void {
  mkdirSync(RESULTS, { recursive: true });
  const name = `${result.id} ${result.fault}`.replaceAll(/[^A-Za-z0-9]+/g, '-');
  writeFileSync(join(RESULTS, `${name}.json`), `${JSON.stringify(result, null, 2)}\n`);
}
