/**
 * Puts combining marks into their canonical order. `String.prototype.normalize` does it by insertion: a text of marks
 * in the wrong order takes quadratic time, and nothing can interrupt it. Both orders are canonically equivalent, so
 * the normalized text is the same.
 */

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
export function orderMarks(text: string, kind: 'canonical' | 'compatibility'): string {
  const replaced = kind === 'canonical' ? DECOMPOSED : { ...DECOMPOSED, ...COMPATIBLE };
  return text.replace(LONG_RUN, (run) => {
    const marks = [...run.replace(/[\u0f73\u0f75\u0f81\uff9e\uff9f]/g, (mark) => replaced[mark] ?? mark)];
    const ordered: string[][] = [];
    for (let at = 0; at < marks.length; at += 1) {
      const begin = at;
      while (at < marks.length && moves(marks[at]!)) at += 1;
      // The mark after these does not move, and no other mark passes it.
      ordered.push(byClass(marks.slice(begin, at)), marks.slice(at, at + 1));
    }
    return ordered.flat().join('');
  });
}

/** Sorts by combining class. Marks of the same class keep their order. */
function byClass(marks: string[]): string[] {
  const members = new Map<CombiningClass, string[]>();
  for (const mark of marks) {
    const own = classOf(mark);
    const others = members.get(own);
    if (others === undefined) members.set(own, [mark]);
    else others.push(mark);
  }
  return [...members].sort(([a], [b]) => a.rank - b.rank).flatMap(([, found]) => found);
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

const moving = new Map<string, boolean>();

/** Whether the mark's combining class is above 0. Then it exchanges with a mark of class 230 or of class 1. */
function moves(mark: string): boolean {
  const before = moving.get(mark);
  if (before !== undefined) return before;
  const found = exchanged('\u0301', mark) || exchanged(mark, '\u0334');
  moving.set(mark, found);
  return found;
}

/** Whether normalization exchanges the two marks: the class of the second is lower, and above 0. */
function exchanged(a: string, b: string): boolean {
  return (a + b).normalize('NFD') !== a.normalize('NFD') + b.normalize('NFD');
}
