/** Divides a window of a lane into segments. The innermost event at each moment decides the segment's group. */
import type { Interval } from './intervals.js';
import type { Lane, Span } from './timeline.js';

interface Segment extends Interval {
  group: string;
}

/** Groups by category, in the order of the legend. Other categories are not drawn. */
const GROUPS: Record<string, string> = {
  expert: 'experts',
  attention: 'attention',
  dense: 'dense FFN',
  router: 'other ops',
  dispatch: 'other ops',
  norm: 'other ops',
  embed: 'other ops',
  head: 'other ops',
  layer: 'other ops',
  pass: 'other ops',
  stall: 'stall: waits for an expert',
  plan: 'plan, reply',
  reply: 'plan, reply',
  loop: 'plan, reply',
  table: 'hash table',
  predictor: 'hash table',
};
const PREFETCH = 'prefetch';
const DEMAND = 'load on demand';

export const LEGEND = [...new Set(Object.values(GROUPS)), PREFETCH, DEMAND];

function groupOf({ name, category }: Span): string | undefined {
  if (category === 'transfer') return name.startsWith('prefetch') ? PREFETCH : DEMAND;
  return GROUPS[category];
}

/** Returns disjoint segments in order. Segments of one group are merged when the gap is at most `gapMs`. */
export function segmentsOf({ spans }: Lane, window: Interval, gapMs: number): Segment[] {
  const found: Segment[] = [];
  const add = (span: Span, begin: number, end: number) => {
    const group = groupOf(span);
    if (group === undefined || end <= begin) return;
    // Transfers are not merged, so that the picture shows how many there are.
    const last = span.category === 'transfer' ? undefined : found.at(-1);
    if (last?.group === group && begin - last.end <= gapMs) last.end = end;
    else found.push({ begin, end, group });
  };
  /** The open events, and the time up to which segments have been added. */
  const open: Span[] = [];
  let told = window.begin;
  const tellUntil = (time: number) => {
    while (open.length > 0 && open.at(-1)!.end <= time) {
      const span = open.pop()!;
      add(span, told, span.end);
      told = Math.max(told, span.end);
    }
    if (open.length > 0) add(open.at(-1)!, told, time);
    told = Math.max(told, time);
  };
  for (const span of spans) {
    if (span.end <= window.begin) continue;
    if (span.begin >= window.end) break;
    tellUntil(Math.max(span.begin, window.begin));
    open.push({ ...span, end: Math.min(span.end, window.end) });
  }
  tellUntil(window.end);
  return found;
}
