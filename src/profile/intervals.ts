/** Sets of points in time, as disjoint intervals in ascending order. */
export interface Interval {
  begin: number;
  end: number;
}

/** The time that any of the intervals covers. */
export function union(intervals: readonly Interval[]): Interval[] {
  const merged: Interval[] = [];
  for (const { begin, end } of intervals.toSorted((a, b) => a.begin - b.begin)) {
    const last = merged.at(-1);
    if (last !== undefined && begin <= last.end) last.end = Math.max(last.end, end);
    else merged.push({ begin, end });
  }
  return merged;
}

/** The time that both `a` and `b` cover. Both must be results of `union`. */
export function intersection(a: readonly Interval[], b: readonly Interval[]): Interval[] {
  const both: Interval[] = [];
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    const begin = Math.max(a[i]!.begin, b[j]!.begin);
    const end = Math.min(a[i]!.end, b[j]!.end);
    if (begin < end) both.push({ begin, end });
    if (a[i]!.end < b[j]!.end) i += 1;
    else j += 1;
  }
  return both;
}

export function length(intervals: readonly Interval[]): number {
  return intervals.reduce((sum, { begin, end }) => sum + end - begin, 0);
}
