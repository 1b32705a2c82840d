/**
 * What the time of passes goes into, in the parts of SiDA-MoE's figure 3 (MLSys 2024): selecting experts, invoking
 * them, communication, and the rest of the model.
 */
import type { TraceEvent, TraceFile } from '../../../dist/profile/chrome-trace.js';

/** Milliseconds. Together they are the time of the passes and of what the inference thread selects between them. */
export interface PassParts {
  /** Routers, plans that are made from hash tables, and waiting for a table. */
  selection: number;
  /** Sorting tokens to their experts, the experts' computing, and adding up what they give. */
  invocation: number;
  /** Waiting for experts that are being loaded. Loads behind computing cost no time of their own. */
  communication: number;
  /** Attention, dense layers, and all else. */
  rest: number;
}

export const PART_NAMES = ['selection', 'invocation', 'communication', 'rest'] as const;

const SELECTION = new Set(['router', 'plan']);
const INVOCATION = new Set(['expert', 'dispatch']);
const TABLE_WAIT = 'table wait';

/** An event of the inference thread. Times are microseconds. */
interface Span {
  name: string;
  category: string;
  end: number;
  /** Time without nested events. */
  self: number;
  inPass: boolean;
}

/** The parts, and the number of passes and the bytes of experts that were moved. Throws when events were dropped. */
export function passParts({ otherData, traceEvents }: TraceFile) {
  if (otherData.dropped > 0) throw new Error(`${otherData.dropped} events of the profile were dropped`);
  const thread = traceEvents.find(({ name, args }) => name === 'thread_name' && args?.name === 'inference');
  const events = traceEvents.filter(({ ph }) => ph === 'X');
  const spans = nested(events.filter(({ tid }) => tid === thread?.tid));
  const parts: PassParts = { selection: 0, invocation: 0, communication: 0, rest: 0 };
  for (const { name, category, self, inPass } of spans) {
    // Plans for a whole pass and waits for tables lie between passes.
    if (SELECTION.has(category) || name === TABLE_WAIT) parts.selection += self / 1000;
    else if (inPass) parts[partOf(category)] += self / 1000;
  }
  const passes = spans.filter(({ category }) => category === 'pass').length;
  const moved = events.filter(({ cat }) => cat === 'transfer');
  return { parts, passes, bytes: moved.reduce((sum, { args }) => sum + Number(args?.bytes ?? 0), 0) };
}

function partOf(category: string): keyof PassParts {
  if (category === 'stall') return 'communication';
  return INVOCATION.has(category) ? 'invocation' : 'rest';
}

function nested(events: readonly TraceEvent[]): Span[] {
  const open: Span[] = [];
  return events
    .toSorted((a, b) => a.ts! - b.ts! || b.dur! - a.dur!)
    .map(({ name, cat: category = '', ts, dur }) => {
      while (open.length > 0 && open.at(-1)!.end <= ts!) open.pop();
      const around = open.at(-1);
      const inPass = category === 'pass' || around?.inPass === true;
      // Rounded to nanoseconds, so that adjacent events do not overlap.
      const span = { name, category, end: Math.round((ts! + dur!) * 1000) / 1000, self: dur!, inPass };
      if (around !== undefined) around.self -= dur!;
      open.push(span);
      return span;
    });
}
