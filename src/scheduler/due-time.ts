/**
 * The order of waiting requests: short ones first, within a bound of waiting. Each request has a due time, and the
 * request that is due first goes first. A due time never changes, so a request is passed over only by requests that
 * come before it is due.
 */

/** A request waits for later ones up to so many times what it takes alone. */
const PATIENCE = 10;

/** When a request is due that came at `nowMs`, takes `seconds` alone, and fails in `leftMs` without an answer. */
export function dueTime(nowMs: number, seconds: number, leftMs: number): number {
  return nowMs + Math.min(PATIENCE * seconds * 1000, Math.max(0, leftMs) / 2);
}

/**
 * When each of a job's inputs is due, evenly until the job is: later jobs are due between the inputs, so that none
 * waits for all of them.
 */
export function inputsDue(nowMs: number, dueMs: number, inputs: number): number[] {
  return Array.from({ length: inputs }, (_, i) => nowMs + ((dueMs - nowMs) * (i + 1)) / inputs);
}
