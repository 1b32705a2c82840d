/**
 * A profile in the Trace Event Format, which chrome://tracing and ui.perfetto.dev open:
 * https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
 */
import type { NativeProfile, ProfileLane } from '../native/addon-types.js';

/** These threads come first, in this order. */
const ORDER = ['main', 'hash building', 'inference', 'transfers'];

/** Metadata of a trace file. */
export interface TraceAbout {
  version: string;
  model: string;
  /** Start of the recording on the monotonic clock (process.hrtime), in nanoseconds. It is time 0 of the events. */
  beginNs: number;
  seconds: number;
  events: number;
  dropped: number;
}

export interface TraceEvent {
  /** X: complete event; M: metadata; b, e: begin and end of an overlapping event. */
  ph: 'X' | 'M' | 'b' | 'e';
  name: string;
  cat?: string;
  pid: number;
  tid: number;
  /** Microseconds. */
  ts?: number;
  dur?: number;
  id?: number;
  args?: Record<string, number | string>;
}

export interface TraceFile {
  displayTimeUnit: 'ms';
  otherData: TraceAbout;
  traceEvents: TraceEvent[];
}

type Op = { name: string; category: string };

/** Waits of batches overlap each other, so each is written as a pair of b and e. */
const ASYNC_CATEGORY = 'queue';

export function* traceEvents(
  { beginNs, lanes }: NativeProfile,
  ops: readonly Op[],
  pid: number,
): Generator<TraceEvent> {
  yield { ph: 'M', name: 'process_name', pid, tid: 0, args: { name: 'sida engine' } };
  for (const { thread: tid, name } of lanes) {
    const place = ORDER.indexOf(name);
    yield { ph: 'M', name: 'thread_name', pid, tid, args: { name } };
    const sortIndex = place < 0 ? ORDER.length : place;
    yield { ph: 'M', name: 'thread_sort_index', pid, tid, args: { sort_index: sortIndex } };
  }
  let asyncId = 0;
  for (const lane of lanes) {
    for (let i = 0; i < lane.op.length; i++) {
      const { name, category: cat } = ops[lane.op[i]!]!;
      const ts = microseconds(lane.begin[i]! - beginNs);
      const dur = microseconds(lane.duration[i]!);
      const args = argsOf(lane, i);
      const common = { name, cat, pid, tid: lane.thread };
      if (cat !== ASYNC_CATEGORY) {
        yield { ph: 'X', ...common, ts, dur, args };
        continue;
      }
      const id = asyncId++;
      yield { ph: 'b', ...common, id, ts, args };
      yield { ph: 'e', ...common, id, ts: microseconds(lane.begin[i]! + lane.duration[i]! - beginNs) };
    }
  }
}

function argsOf(lane: ProfileLane, i: number): Record<string, number> {
  const args: Record<string, number> = {};
  for (const name of ['layer', 'expert', 'tokens', 'batch', 'bytes'] as const) {
    if (lane[name][i]! >= 0) args[name] = lane[name][i]!;
  }
  return args;
}

/** Rounds to the nanosecond, so that adjacent events stay adjacent. */
function microseconds(ns: number): number {
  return Math.round(ns) / 1000;
}
