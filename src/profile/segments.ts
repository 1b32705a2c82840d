/** What a thread does at each moment of a window: the innermost event, by the groups of a picture. */
import type { Interval } from './intervals.js';
import type { Lane, Span } from './timeline.js';

interface Segment extends Interval {
  group: string;
}

/** Groups by category, in the order of the legend. A category that is not there is not drawn. */
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

/** In order and disjoint; segments of one group that are nearer than `gapMs` are one. */
export function segmentsOf({ spans }: Lane, window: Interval, gapMs: number): Segment[] {
  const found: Segment[] = [];
  const add = (span: Span, begin: number, end: number) => {
    const group = groupOf(span);
    if (group === undefined || end <= begin) return;
    // Transfers are drawn one by one: how many there are is worth seeing.
    const last = span.category === 'transfer' ? undefined : found.at(-1);
    if (last?.group === group && begin - last.end <= gapMs) last.end = end;
    else found.push({ begin, end, group });
  };
  /** The open events, and up to where the innermost is told. */
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
