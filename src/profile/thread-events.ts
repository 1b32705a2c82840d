/**
 * Records the work of an engine thread as events of a profile. While no recording runs, an event costs one call that
 * returns 0.
 */
import type { Recorder } from '../native/addon-types.js';

/** Ops recorded from TypeScript. native/src/core/profile_ops.cc lists the native ops and all categories. */
export const THREAD_OPS = [
  'tokenize',
  'batch wait',
  'build table',
  'step table',
  'table wait',
  'idle',
  'batch',
  'step',
  'account',
  'emit',
] as const;
type ThreadOp = (typeof THREAD_OPS)[number];

interface EventArgs {
  tokens?: number;
  batch?: number;
}

/** The recorder of this thread. Undefined until recordThread() names the thread, which then records nothing. */
let recorder: Recorder | undefined;
let numbers: ReadonlyMap<string, number> = new Map();

/** Names the calling thread. From now on its events are recorded whenever a recording runs. */
export function recordThread(own: Recorder, name: string): void {
  recorder = own;
  numbers = new Map(own.ops.map((op, number) => [op.name, number]));
  own.nameThread(name);
}

/** Runs `body` as one event. */
export function profiled<T>(op: ThreadOp, body: () => T, args?: EventArgs): T {
  const begin = recorder === undefined ? 0 : recorder.now();
  if (begin === 0) return body();
  try {
    return body();
  } finally {
    recorder!.record(numbers.get(op)!, begin, args?.tokens, args?.batch);
  }
}

/** Records an event that lasted `ms` and ends now. */
export function profiledFor(op: ThreadOp, ms: number, args?: EventArgs): void {
  const now = recorder === undefined ? 0 : recorder.now();
  if (now !== 0) recorder!.record(numbers.get(op)!, now - ms * 1e6, args?.tokens, args?.batch);
}
