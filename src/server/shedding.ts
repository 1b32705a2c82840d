/**
 * Chooses the connection to close when there is no room for another one. Connections are judged by what they do: those
 * that do nothing go first, and a connection whose request is computed, or whose answer is being read, never goes,
 * unless that answer is the events of a job.
 */

export interface Connection {
  /** Its address, or its network; see client-address.ts. */
  client: string;
  /**
   * `beginning` until the headers of its first request are complete, `busy` until the last request that has begun is
   * answered, `idle` between requests.
   */
  doing: 'beginning' | 'busy' | 'idle';
  /** Time at which it began to do that, in milliseconds. */
  since: number;
  /** Whether the latest answer was to a request for work. Only such a connection is worth keeping while it is idle. */
  worked: boolean;
  /** Whether a busy connection still sends the body of its request. */
  receiving(): boolean;
  /** Bytes received since the end of the last answer. */
  received(): number;
  /** Whether a busy connection follows the events of a job, which its client can ask for again. */
  follows(): boolean;
  /** Milliseconds for which the client has read nothing of an answer that waits for it; 0 when nothing waits. */
  unread(now: number): number;
}

export interface SheddingLimits {
  /** Time that a new connection or request has before it is judged. */
  graceMs: number;
  /** Bodies that arrive slower than this, in bytes per second, may be closed. */
  leastRate: number;
  /** Answers of which nothing was read for this long may be closed. */
  unreadMs: number;
}

/** Why a connection was closed. */
export type ShedReason = 'silent' | 'idle' | 'slow' | 'unread' | 'events';

export interface Victim<C> {
  connection: C;
  reason: ShedReason;
}

/**
 * Finds the connection to close, the oldest of the first of these kinds that there is:
 *   1. silent: no complete request since `graceMs`
 *   2. idle, and its latest request was no work, such as a probe
 *   3. slow: its body arrives slower than `leastRate`
 *   4. idle after work
 *   5. unread: its client does not read the answer
 *   6. events: it follows a job. Only when `full`.
 *   7. unfinished: it is within `graceMs`. Only when `full`.
 * `connections` are in the order of their `since`. Returns undefined when all are at work.
 */
export function chooseVictim<C extends Connection>(
  connections: ReadonlySet<C>,
  limits: SheddingLimits,
  now: number,
  { full, client }: { full: boolean; client?: string | undefined },
): Victim<C> | undefined {
  const { graceMs, unreadMs } = limits;
  const found: Partial<Record<'idle' | 'slow' | 'idleAfterWork' | 'unread' | 'events' | 'unfinished', C>> =
    {};
  for (const connection of connections) {
    if (client !== undefined && connection.client !== client) continue;
    const { doing, since, worked } = connection;
    const age = now - since;
    if (doing === 'beginning') {
      if (age > graceMs) return { connection, reason: 'silent' };
      found.unfinished ??= connection;
    } else if (doing === 'idle') {
      if (worked) found.idleAfterWork ??= connection;
      else found.idle ??= connection;
    } else if (connection.receiving()) {
      if (isSlow(connection, limits, now)) found.slow ??= connection;
      else if (age <= graceMs) found.unfinished ??= connection;
    } else if (connection.unread(now) > unreadMs) found.unread ??= connection;
    else if (connection.follows()) found.events ??= connection;
  }
  if (found.idle !== undefined) return { connection: found.idle, reason: 'idle' };
  if (found.slow !== undefined) return { connection: found.slow, reason: 'slow' };
  if (found.idleAfterWork !== undefined) return { connection: found.idleAfterWork, reason: 'idle' };
  if (found.unread !== undefined) return { connection: found.unread, reason: 'unread' };
  if (full && found.events !== undefined) return { connection: found.events, reason: 'events' };
  const last = full ? found.unfinished : undefined;
  return last && { connection: last, reason: last.doing === 'beginning' ? 'silent' : 'slow' };
}

/** Whether the connection's request has begun to arrive before `graceMs`, and arrives slower than `leastRate`. */
export function isSlow(connection: Connection, { graceMs, leastRate }: SheddingLimits, now: number): boolean {
  const age = now - connection.since;
  if (age <= graceMs || connection.doing === 'idle') return false;
  if (connection.doing === 'beginning') return true;
  return connection.receiving() && connection.received() < (leastRate * age) / 1000;
}
