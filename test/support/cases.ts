/** Suites of cases that other projects wrote: a test each, which `node scripts/cases.mjs` counts. */
import { readFileSync } from 'node:fs';
import { describe, it } from 'vitest';
import { parseExactly } from '../../src/text/exact-json.js';

export const CASES = new URL('../data/cases/', import.meta.url);

/** A file with a case a line. */
export function casesOf<C>(path: string): C[] {
  const lines = readFileSync(new URL(path, CASES), 'utf8').trim().split('\n');
  return lines.map((line) => parseExactly(line) as C);
}

/**
 * `check` throws where a case fails; a reason that it returns argues the case. Cases that `argued` names, with the
 * reason, must fail.
 */
export function testCases<C extends { id: string }>(
  suite: string,
  cases: readonly C[],
  check: (each: C) => unknown,
  argued: Readonly<Record<string, string>> = {},
): void {
  const unknown = Object.keys(argued).filter((id) => cases.every((each) => each.id !== id));
  if (unknown.length > 0) throw new Error(`no case of ${suite} is called ${unknown.join(', ')}`);
  describe(suite, () => {
    for (const each of cases) {
      const fails = argued[each.id] !== undefined;
      (fails ? it.fails : it)(each.id, async ({ task }) => {
        const about: Counted = { suite, ...(fails && { argued: argued[each.id]! }) };
        Object.assign(task.meta, about);
        const why = await check(each);
        if (typeof why === 'string') Object.assign(task.meta, { argued: why } satisfies Partial<Counted>);
      });
    }
  });
}

interface Counted {
  suite: string;
  argued?: string;
}
