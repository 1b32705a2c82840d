/** Reads a profile back: the events of each thread and how they nest. */
import { SidaError } from '../errors.js';
import { readTextFile } from '../files/text-file.js';
import type { TraceAbout, TraceEvent, TraceFile } from './chrome-trace.js';
import type { Interval } from './intervals.js';

/** An event. Times are milliseconds from the start of the recording. */
export interface Span extends Interval {
  name: string;
  category: string;
  /** The innermost event that contains it. Null at the top level. */
  parent: Span | null;
  /** Time without nested events. */
  selfMs: number;
  args: Partial<Record<'layer' | 'expert' | 'tokens' | 'batch' | 'bytes', number>>;
}

export interface Lane {
  name: string;
  /** Sorted by begin, an event before the events nested in it. */
  spans: Span[];
}

export interface Timeline {
  about: TraceAbout;
  lanes: Lane[];
}

/** Throws invalid_request when the file is not a profile from `sida serve --profile`. */
export async function readTimeline(file: string): Promise<Timeline> {
  const text = readTextFile(file, 'invalid_request');
  let trace: TraceFile;
  try {
    trace = JSON.parse(text) as TraceFile;
  } catch (error) {
    throw noProfile(file, (error as Error).message);
  }
  if (!Array.isArray(trace?.traceEvents) || typeof trace.otherData?.beginNs !== 'number') {
    throw noProfile(file, 'it has no events of `sida serve --profile`');
  }
  try {
    return timelineOf(trace);
  } catch (error) {
    throw noProfile(file, (error as Error).message);
  }
}

function noProfile(file: string, why: string): SidaError {
  return new SidaError({ code: 'invalid_request', message: `${file} is not a profile: ${why}` });
}

/** Throws when events of a thread overlap without being nested. */
export function timelineOf({ otherData: about, traceEvents }: TraceFile): Timeline {
  const byThread = new Map<number, TraceEvent[]>();
  const names = new Map<number, string>();
  for (const event of traceEvents) {
    if (event.ph === 'M' && event.name === 'thread_name') names.set(event.tid, String(event.args?.name));
    if (event.ph !== 'X') continue;
    const own = byThread.get(event.tid) ?? [];
    byThread.set(event.tid, own);
    own.push(event);
  }
  const lanes = [...byThread].map(([tid, events]) => {
    const name = names.get(tid) ?? `thread ${tid}`;
    return { name, spans: nested(name, events) };
  });
  return { about, lanes };
}

function nested(lane: string, events: TraceEvent[]): Span[] {
  const ordered = events.toSorted((a, b) => a.ts! - b.ts! || b.dur! - a.dur!);
  const open: Span[] = [];
  return ordered.map((event) => {
    const begin = event.ts! / 1000;
    // Round to nanoseconds, so that rounding errors do not make adjacent events overlap.
    const end = Math.round(event.ts! * 1000 + event.dur! * 1000) / 1e6;
    while (open.length > 0 && open.at(-1)!.end <= begin) open.pop();
    const parent = open.at(-1) ?? null;
    if (parent !== null && end > parent.end) {
      throw new Error(`of ${lane}, ${event.name} at ${begin} ms ends after the ${parent.name} around it`);
    }
    const args = (event.args ?? {}) as Span['args'];
    const { name, cat: category = '' } = event;
    const span: Span = { name, category, begin, end, parent, selfMs: end - begin, args };
    if (parent !== null) parent.selfMs -= end - begin;
    open.push(span);
    return span;
  });
}
