/** One fault of the suite: a test that leaves a line and a row for the table, also when it fails. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { it } from 'vitest';
import { REPO } from '../support/server-process.js';

/** Each run of the suite begins with this folder empty. */
export const RESULTS = join(REPO, 'build', 'faults');

/** A measured value and what it may be at most, or with `least` at least. */
export interface Limit {
  what: string;
  value: number;
  limit: number;
  unit: string;
  least: boolean;
  /** The fault fails when the limit is missed. Otherwise a busy machine may miss it. */
  asserted: boolean;
  met: boolean;
}

/** Something of the same kind that was measured in the same run, on the same machine, without the fault. */
export interface Quiet {
  /** As in `a restart without load`. */
  what: string;
  /** In the unit of the measured time. */
  value: number;
  /** The measured time may be at most so many times the quiet one. */
  times: number;
}

export interface FaultResult {
  id: string;
  fault: string;
  /** Name of the file that runs it. */
  file: string;
  /** What was counted, in words. */
  figures: string[];
  limits: Limit[];
  /** Nothing was lost, wrong or dead, and every asserted limit is met. */
  passed: boolean;
  seconds: number;
}

export interface FaultReport {
  /** A figure in words, such as `accepted 1019`. */
  note(figure: string): void;
  /** Of memory, counts, descriptors, sizes and ratios: the fault fails when the limit is missed. */
  atMost(what: string, value: number, limit: number, unit: string): void;
  atLeast(what: string, value: number, limit: number, unit: string): void;
  /**
   * A ratio of speeds of the same run. It should reach `aim`, which a busy machine may miss; `bound` is asserted. A
   * bound above the aim makes both of them upper limits.
   */
  ratio(what: string, value: number, aim: number, bound: number, unit: string): void;
  /**
   * Of times: a busy machine may miss the limit, and only --strict makes that a failure. The ratio to `quiet` is
   * asserted.
   */
  withinTime(what: string, value: number, limit: number, unit: 's' | 'ms', quiet: Quiet): void;
}

/** `id` as `F22`. */
export function fault(id: string, what: string, run: (report: FaultReport) => Promise<void>): void {
  it(`${id} ${what}`, async ({ task }) => {
    const file = basename(task.file.name);
    const figures: string[] = [];
    const limits: Limit[] = [];
    const started = performance.now();
    let passed = false;
    // A fault that runs out of time, or whose process dies, has this result.
    leave({ id, fault: what, file, figures: ['did not end'], limits: [], passed, seconds: 0 });
    const add = (limit: Omit<Limit, 'met'>) => {
      const { value, least } = limit;
      limits.push({ ...limit, met: least ? value >= limit.limit : value <= limit.limit });
    };
    try {
      await run({
        note: (figure) => figures.push(figure),
        atMost: (name, value, limit, unit) =>
          add({ what: name, value, limit, unit, least: false, asserted: true }),
        atLeast: (name, value, limit, unit) =>
          add({ what: name, value, limit, unit, least: true, asserted: true }),
        ratio(name, value, aim, bound, unit) {
          const least = bound < aim;
          const reached = least ? value >= aim : value <= aim;
          if (!reached) add({ what: `${name} (aim)`, value, limit: aim, unit, least, asserted: false });
          add({ what: name, value, limit: reached ? aim : bound, unit, least, asserted: true });
        },
        withinTime(name, value, limit, unit, quiet) {
          add({ what: name, value, limit, unit, least: false, asserted: false });
          const times = value / quiet.value;
          add({
            what: `of ${quiet.what}`,
            value: times,
            limit: quiet.times,
            unit: '×',
            least: false,
            asserted: true,
          });
        },
      });
      passed = limits.every(({ asserted, met }) => met || !asserted);
    } finally {
      const seconds = Math.round((performance.now() - started) / 100) / 10;
      leave({ id, fault: what, file, figures, limits, passed, seconds });
    }
    const missed = limits.filter(({ asserted, met }) => asserted && !met);
    if (missed.length > 0) throw new Error(`missed: ${missed.map(inWords).join('; ')}`);
  });
}

function inWords({ what, value, least, limit, unit }: Limit): string {
  return `${what} ${value} ${unit}, where ${least ? 'at least' : 'at most'} ${limit} is allowed`;
}

function leave(result: FaultResult): void {
  mkdirSync(RESULTS, { recursive: true });
  const name = `${result.id} ${result.fault}`.replaceAll(/[^A-Za-z0-9]+/g, '-');
  writeFileSync(join(RESULTS, `${name}.json`), `${JSON.stringify(result, null, 2)}\n`);
}
