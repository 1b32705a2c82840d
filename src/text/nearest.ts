/** Suggests what a user may have meant by a name that is unknown. */

/**
 * The known name that differs least from `name`; undefined when all differ in more than one of `each` letters, and in
 * more than one.
 */
export function nearest(name: string, known: Iterable<string>, each = 3): string | undefined {
  let best: { name: string; distance: number } | undefined;
  // Only short names are compared, since the time grows with the product of the lengths.
  if (name.length > MOST_CHARACTERS) return undefined;
  for (const candidate of known) {
    const distance = editDistance(name.toLowerCase(), candidate.toLowerCase());
    const most = Math.max(1, Math.floor(Math.max(name.length, candidate.length) / each));
    if (distance < name.length && distance <= most && distance < (best?.distance ?? Number.POSITIVE_INFINITY))
      best = { name: candidate, distance };
  }
  return best?.name;
}

const MOST_CHARACTERS = 64;

/** Letters to insert, delete, replace or swap with their neighbour to make `a` of `b`. */
function editDistance(a: string, b: string): number {
  let before: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1;
      let least = Math.min(last[j]! + 1, row[j - 1]! + 1, last[j - 1]! + same);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        least = Math.min(least, before[j - 2]! + 1);
      row.push(least);
    }
    before = last;
    last = row;
  }
  return last[b.length]!;
}
