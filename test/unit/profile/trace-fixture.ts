import type { TraceEvent, TraceFile } from '../../../src/profile/chrome-trace.js';

type Spec = [tid: number, name: string, cat: string, begin: number, end: number, args?: TraceEvent['args']];

/** Makes a trace of events whose times are in milliseconds. */
export function trace(names: Record<number, string>, specs: readonly Spec[]): TraceFile {
  return {
    displayTimeUnit: 'ms',
    otherData: { version: '0', model: 'm', beginNs: 0, seconds: 1, events: specs.length, dropped: 0 },
    traceEvents: [
      ...Object.entries(names).map(([tid, name]): TraceEvent => {
        return { ph: 'M', name: 'thread_name', pid: 1, tid: Number(tid), args: { name } };
      }),
      ...specs.map(([tid, name, cat, begin, end, args]): TraceEvent => {
        return {
          ph: 'X',
          name,
          cat,
          pid: 1,
          tid,
          ts: begin * 1000,
          dur: (end - begin) * 1000,
          ...(args && { args }),
        };
      }),
    ],
  };
}

/**
 * A trace of two passes. The first takes 10 ms: its layer stalls for 3 ms for an on-demand load of 4 KiB, then
 * computes for 2 ms while a prefetch runs, which ends after the pass. A hash table is filled during the second pass.
 */
export const TWO_PASSES = trace({ 1: 'inference', 2: 'transfers', 3: 'hash building' }, [
  [1, 'batch', 'loop', 0, 12, { batch: 0, tokens: 5 }],
  [1, 'plan', 'plan', 0, 1],
  [1, 'encoder pass', 'pass', 1, 11, { tokens: 5 }],
  [1, 'layer', 'layer', 2, 10, { layer: 0 }],
  [1, 'stall', 'stall', 3, 6, { layer: 0 }],
  [1, 'expert', 'expert', 6, 8, { layer: 0, expert: 1, tokens: 5 }],
  [1, 'encoder pass', 'pass', 20, 24, { tokens: 3 }],
  [2, 'on-demand transfer', 'transfer', 3, 6, { layer: 0, expert: 1, bytes: 4096 }],
  [2, 'prefetch transfer', 'transfer', 7, 13, { layer: 1, expert: 2, bytes: 4096 }],
  [3, 'build table', 'table', 19, 21, { batch: 1, tokens: 3 }],
  [3, 'predict', 'predictor', 19.5, 20.5, { tokens: 3 }],
]);
