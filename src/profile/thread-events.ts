/**
 * What a thread of the engine process does, as events of a profile. Costs a call that returns 0 while none is
 * recorded.
 */
import type { Recorder } from '../native/addon-types.js';

/** Ops recorded from TypeScript; the native ones and all categories: native/src/core/profile_ops.cc. */
export const THREAD_OPS = [
  'tokenize',
  'batch wait',
  'build table',
  'step table',
  'table wait',
  'idle',
  'batch',
  'step',
  'plan',
  'account',
  'emit',
] as const;
type ThreadOp = (typeof THREAD_OPS)[number];

interface EventArgs {
  tokens?: number;
  batch?: number;
}

/** Of this thread; a thread without a name records nothing. */
let recorder: Recorder | undefined;
let numbers: ReadonlyMap<string, number> = new Map();

/** From here on the calling thread's events are recorded whenever a recording runs. */
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

/** An event that ends now and lasted `ms`. */
export function profiledFor(op: ThreadOp, ms: number, args?: EventArgs): void {
  const now = recorder === undefined ? 0 : recorder.now();
  if (now !== 0) recorder!.record(numbers.get(op)!, now - ms * 1e6, args?.tokens, args?.batch);
}
