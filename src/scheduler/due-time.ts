/**
 * The order of waiting requests: short ones first, within a bound of waiting. Each job has a due time, and the job that
 * is due first goes first. A due time never changes until then, so a job is passed over only by jobs that come before
 * it is due.
 */

/** A request waits for later ones up to so many times what it takes alone. */
const PATIENCE = 10;

/** When a request is due that came at `arrivedMs`, takes `seconds` alone, and fails unanswered after `leftMs`. */
export function dueTime(arrivedMs: number, seconds: number, leftMs: number): number {
  return arrivedMs + Math.min(PATIENCE * seconds * 1000, Math.max(0, leftMs) / 2);
}
