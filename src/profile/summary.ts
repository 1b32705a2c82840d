/** Sums up a profile in figures. Times are in milliseconds. */
import { intersection, length, union } from './intervals.js';
import type { Span, Timeline } from './timeline.js';

interface OpSummary {
  thread: string;
  name: string;
  category: string;
  count: number;
  /** Time from begin to end, including nested events. */
  totalMs: number;
  /** Time without nested events. The self times of a thread add up to its time. */
  selfMs: number;
  /** Share of the passes' time, by selfMs. Null for an op that never runs inside a pass. */
  shareOfPasses: number | null;
  p50Ms: number;
  p99Ms: number;
}

export interface ProfileSummary {
  model: string;
  seconds: number;
  events: number;
  dropped: number;
  passes: { count: number; ms: number };
  /** Time that passes waited for experts. */
  stall: { ms: number; shareOfPasses: number };
  transfers: {
    count: number;
    bytes: number;
    /** Time with at least one transfer in flight. */
    ms: number;
    /** Shares of that time in which a pass computed, a pass waited, or no pass ran. */
    behindCompute: number;
    whileStalled: number;
    betweenPasses: number;
  };
  /** Hash tables that the hash-building thread filled. */
  tables: { count: number; ms: number; shareOfPasses: number; besidePasses: number };
  /** Grouped by thread, the op with the most self time first. */
  ops: OpSummary[];
}

export function summarize({ about, lanes }: Timeline): ProfileSummary {
  const { model, seconds, events, dropped } = about;
  const spans = lanes.flatMap((lane) => lane.spans);
  const passes = spans.filter(isPass);
  const passMs = length(passes);
  const inPasses = union(passes);
  const stalls = spans.filter((span) => span.category === 'stall' && passOf(span) !== null);
  const stallMs = length(stalls);
  const transfers = spans.filter(({ category }) => category === 'transfer');
  const moving = union(transfers);
  const movingMs = length(moving);
  const duringPasses = length(intersection(moving, inPasses));
  const duringStalls = length(intersection(moving, union(stalls)));
  const tables = spans.filter(({ name }) => name === 'build table');
  return {
    model,
    seconds,
    events,
    dropped,
    passes: { count: passes.length, ms: passMs },
    stall: { ms: stallMs, shareOfPasses: share(stallMs, passMs) },
    transfers: {
      count: transfers.length,
      bytes: transfers.reduce((sum, { args }) => sum + (args.bytes ?? 0), 0),
      ms: movingMs,
      behindCompute: share(duringPasses - duringStalls, movingMs),
      whileStalled: share(duringStalls, movingMs),
      betweenPasses: share(movingMs - duringPasses, movingMs),
    },
    tables: {
      count: tables.length,
      ms: length(tables),
      shareOfPasses: share(length(tables), passMs),
      besidePasses: share(length(intersection(union(tables), inPasses)), length(tables)),
    },
    ops: lanes.flatMap(({ name, spans: own }) => opsOf(name, own, passMs)),
  };
}

export function isPass({ category }: Span): boolean {
  return category === 'pass';
}

/** The pass that contains an event, or the event itself if it is a pass. */
function passOf(span: Span): Span | null {
  for (let at: Span | null = span; at !== null; at = at.parent) if (isPass(at)) return at;
  return null;
}

function opsOf(thread: string, spans: readonly Span[], passMs: number): OpSummary[] {
  const byName = new Map<string, Span[]>();
  for (const span of spans) {
    const own = byName.get(span.name) ?? [];
    byName.set(span.name, own);
    own.push(span);
  }
  const ops = [...byName].map(([name, own]): OpSummary => {
    const durations = own.map(({ begin, end }) => end - begin).sort((a, b) => a - b);
    const inside = own.filter((span) => passOf(span) !== null);
    const insideMs = inside.reduce((sum, span) => sum + span.selfMs, 0);
    return {
      thread,
      name,
      category: own[0]!.category,
      count: own.length,
      totalMs: length(own),
      selfMs: own.reduce((sum, span) => sum + span.selfMs, 0),
      shareOfPasses: inside.length > 0 ? share(insideMs, passMs) : null,
      p50Ms: percentile(durations, 0.5),
      p99Ms: percentile(durations, 0.99),
    };
  });
  return ops.sort((a, b) => b.selfMs - a.selfMs);
}

/** The smallest value that is not exceeded by the share `at` of the values. */
function percentile(ascending: readonly number[], at: number): number {
  return ascending[Math.max(0, Math.ceil(at * ascending.length) - 1)]!;
}

function share(part: number, whole: number): number {
  return whole > 0 ? part / whole : 0;
}
