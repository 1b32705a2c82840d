/** Reads a recorded profile back: the events of each thread, and how they nest. */
import type { TraceEvent, TraceFile } from '../../src/profile/chrome-trace.js';

/** An event. Times are milliseconds from the start of the recording. */
export interface Span {
  thread: string;
  name: string;
  category: string;
  begin: number;
  end: number;
  /** The innermost event that contains it; null at the top level. */
  parent: Span | null;
  /** Time without nested events. */
  selfMs: number;
  args: Partial<Record<'layer' | 'expert' | 'tokens' | 'batch' | 'bytes', number>>;
}

/** Throws when events of one thread overlap without being nested. */
export function traceSpans({ traceEvents }: TraceFile): Span[] {
  const named = traceEvents.filter(({ name }) => name === 'thread_name');
  return named.flatMap(({ tid, args }) => {
    const own = traceEvents.filter((event) => event.ph === 'X' && event.tid === tid);
    return nested(String(args!.name), own);
  });
}

function nested(thread: string, events: readonly TraceEvent[]): Span[] {
  const open: Span[] = [];
  return events
    .toSorted((a, b) => a.ts! - b.ts! || b.dur! - a.dur!)
    .map(({ name, cat: category = '', ts, dur, args }) => {
      const begin = ts! / 1000;
      // Rounded to nanoseconds, so that rounding errors do not make adjacent events overlap.
      const end = Math.round(ts! * 1000 + dur! * 1000) / 1e6;
      while (open.length > 0 && open.at(-1)!.end <= begin) open.pop();
      const parent = open.at(-1) ?? null;
      if (parent !== null && end > parent.end)
        throw new Error(`${thread}: ${name} at ${begin} ms ends after the ${parent.name} around it`);
      const span = { thread, name, category, begin, end, parent, selfMs: end - begin, args: args ?? {} };
      if (parent !== null) parent.selfMs -= span.selfMs;
      open.push(span);
      return span;
    });
}
