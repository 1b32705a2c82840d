/** One fault of the suite: a test that leaves a row for the table, also when it fails. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { it } from 'vitest';
import { REPO } from '../support/server-process.js';

/** Each run of the suite begins with this folder empty. */
const RESULTS = join(REPO, 'build', 'faults');

/** A measured value and what it may be at most, or with `least` at least. */
interface Limit {
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
  /** Of times: a busy machine may miss the limit. The ratio to `quiet` is asserted. */
  withinTime(what: string, value: number, limit: number, unit: 's' | 'ms', quiet: Quiet): void;
}

export function fault(what: string, run: (report: FaultReport) => Promise<void>): void {
  it(what, async ({ task }) => {
    const file = basename(task.file.name, '.fault.ts');
    const figures: string[] = [];
    const limits: Limit[] = [];
    const started = performance.now();
    const leave = (passed: boolean, told = figures) => {
      const seconds = Math.round((performance.now() - started) / 100) / 10;
      const result = { file, fault: what, figures: told, limits, passed, seconds };
      mkdirSync(RESULTS, { recursive: true });
      const name = `${file} ${what}`.replaceAll(/[^A-Za-z0-9]+/g, '-');
      writeFileSync(join(RESULTS, `${name}.json`), `${JSON.stringify(result, null, 2)}\n`);
    };
    const add = (name: string, value: number, limit: number, unit: string, least = false, asserted = true) =>
      limits.push({
        ...{ what: name, value, limit, unit, least, asserted },
        met: least ? value >= limit : value <= limit,
      });
    const missed = () => limits.filter(({ asserted, met }) => asserted && !met);
    let ended = false;
    // A fault that runs out of time, or whose process dies, has this result.
    leave(false, ['did not end']);
    try {
      await run({
        note: (figure) => figures.push(figure),
        atMost: add,
        atLeast: (name, value, limit, unit) => add(name, value, limit, unit, true),
        ratio(name, value, aim, bound, unit) {
          const least = bound < aim;
          const reached = least ? value >= aim : value <= aim;
          if (!reached) add(`${name} (aim)`, value, aim, unit, least, false);
          add(name, value, reached ? aim : bound, unit, least);
        },
        withinTime(name, value, limit, unit, quiet) {
          add(name, value, limit, unit, false, false);
          add(`of ${quiet.what}`, value / quiet.value, quiet.times, '×');
        },
      });
      ended = true;
    } finally {
      leave(ended && missed().length === 0);
    }
    if (missed().length > 0) throw new Error(`missed: ${missed().map(inWords).join('; ')}`);
  });
}

function inWords({ what, value, least, limit, unit }: Limit): string {
  return `${what} ${value} ${unit}, where ${least ? 'at least' : 'at most'} ${limit} is allowed`;
}
