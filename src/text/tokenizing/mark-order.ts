/**
 * Puts combining marks into their canonical order. `String.prototype.normalize` does it by insertion: a text of marks
 * in the wrong order takes quadratic time, and nothing can interrupt it. Both orders are canonically equivalent, so
 * the normalized text is the same.
 */

import type { Pace } from './pace.js';

/** Runs that are worth sorting. Text has one to three marks in a row. */
const LONG_RUN = /[\p{M}\uff9e\uff9f]{16,}/gu;

/** Marks of class 0 that decompose into marks of other classes. */
const DECOMPOSED: Record<string, string> = {
  '\u0f73': '\u0f71\u0f72',
  '\u0f75': '\u0f71\u0f74',
  '\u0f81': '\u0f71\u0f80',
};
/** Letters that become marks in the compatibility forms NFKC and NFKD. */
const COMPATIBLE: Record<string, string> = { '\uff9e': '\u3099', '\uff9f': '\u309a' };

/** The text with long runs of marks in order. Only the given kind of normalization is unchanged by it. */
export function orderMarks(text: string, kind: 'canonical' | 'compatibility', pace: Pace): string {
  const replaced = kind === 'canonical' ? DECOMPOSED : { ...DECOMPOSED, ...COMPATIBLE };
  return text.replace(LONG_RUN, (run) => {
    let ordered = '';
    /** The marks since the last one that does not move, which no mark passes. */
    const moving = new Map<CombiningClass, string>();
    for (const mark of run.replace(/[\u0f73\u0f75\u0f81\uff9e\uff9f]/g, (each) => replaced[each] ?? each)) {
      pace.step();
      if (!moves(mark)) {
        ordered += byClass(moving) + mark;
        moving.clear();
        continue;
      }
      const own = classOf(mark);
      moving.set(own, (moving.get(own) ?? '') + mark);
    }
    return ordered + byClass(moving);
  });
}

/** Marks of the same class keep their order. */
function byClass(marks: ReadonlyMap<CombiningClass, string>): string {
  if (marks.size === 0) return '';
  return [...marks]
    .sort(([a], [b]) => a.rank - b.rank)
    .map(([, found]) => found)
    .join('');
}

/** JavaScript does not tell a mark's class, only how normalization orders two marks. */
interface CombiningClass {
  /** A mark of the class. */
  mark: string;
  /** Place among the classes found so far. */
  rank: number;
}

/** The classes found so far, the lowest first. Unicode has fewer than sixty. */
const classes: CombiningClass[] = [];
const known = new Map<string, CombiningClass>();

/** The class of a mark that moves. It is found once in the life of the process. */
function classOf(mark: string): CombiningClass {
  let found = known.get(mark);
  if (found !== undefined) return found;
  let low = 0;
  let high = classes.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (exchanged(mark, classes[middle]!.mark)) low = middle + 1;
    else high = middle;
  }
  found = classes[low];
  if (found === undefined || exchanged(found.mark, mark)) {
    found = { mark, rank: low };
    classes.splice(low, 0, found);
    for (const [rank, each] of classes.entries()) each.rank = rank;
  }
  known.set(mark, found);
  return found;
}

const movers = new Map<string, boolean>();

/** Whether the mark's combining class is above 0. Then it exchanges with a mark of class 230 or of class 1. */
function moves(mark: string): boolean {
  const before = movers.get(mark);
  if (before !== undefined) return before;
  const found = exchanged('\u0301', mark) || exchanged(mark, '\u0334');
  movers.set(mark, found);
  return found;
}

/** Whether normalization exchanges the two marks: the class of the second is lower, and above 0. */
function exchanged(a: string, b: string): boolean {
  return (a + b).normalize('NFD') !== a.normalize('NFD') + b.normalize('NFD');
}
