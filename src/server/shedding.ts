/**
 * Chooses the connection to close when there is no room for another one. Connections are judged by what they do: those
 * that do nothing go first, and a connection whose request is computed, or whose answer is being read, never goes,
 * unless that answer is the events of a job.
 */

/**
 * `beginning` until the headers of its first request are complete, `busy` until the last request that has begun is
 * answered. Between requests `idleAfterWork` when the latest answer was to a request for work, `idle` otherwise: only
 * the former is worth keeping.
 */
export type Doing = 'beginning' | 'busy' | 'idle' | 'idleAfterWork';

export interface Connection {
  /** Its address, or its network; see client-address.ts. */
  client: string;
  doing: Doing;
  /** Time at which it began to do that, in milliseconds. */
  since: number;
  /** Whether a busy connection still sends the body of its request. */
  receiving(): boolean;
  /** Bytes received since the end of the last answer. */
  received(): number;
  /** Whether a busy connection follows the events of a job, which its client can ask for again. */
  follows(): boolean;
  /** Milliseconds for which the client has read nothing of an answer that waits for it; 0 when nothing waits. */
  unread(now: number): number;
}

/** The open connections by what they do, each group in the order of `since`. */
export type Groups<C> = Readonly<Record<Doing, ReadonlySet<C>>>;

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

/** Part of the grace time after which a slow upload goes before a connection that has just worked. */
const SHORT_GRACE = 1 / 4;

/**
 * Finds the connection to close, the oldest of the first of these kinds that there is:
 *   1. silent: no complete request since `graceMs`
 *   2. idle, and its latest request was no work, such as a probe
 *   3. slow: its body arrives slower than `leastRate`
 *   4. idle after work; when that is not for `graceMs` yet, first those that are slow, judged after a part of it
 *   5. unread: its client does not read the answer
 *   6. events: it follows a job. Only when `full`.
 *   7. unfinished: it is within `graceMs`. Only when `full`.
 * Returns undefined when all are at work. A crowd that comes back at once asks thousands of times a second, so a kind
 * is searched for only when there is none of those before it.
 */
export function chooseVictim<C extends Connection>(
  groups: Groups<C>,
  limits: SheddingLimits,
  now: number,
  { full, client }: { full: boolean; client?: string | undefined },
): Victim<C> | undefined {
  /** The oldest that does it since `ageMs` or more. */
  const oldest = (
    doing: Doing,
    ageMs: number,
    is: (connection: C) => boolean = () => true,
  ): C | undefined => {
    for (const connection of groups[doing]) {
      if (now - connection.since < ageMs) return undefined;
      if ((client === undefined || connection.client === client) && is(connection)) return connection;
    }
    return undefined;
  };
  const slowSince = (ageMs: number) => {
    return oldest('busy', ageMs, (each) => isSlow(each, { ...limits, graceMs: ageMs }, now));
  };
  const { graceMs, unreadMs } = limits;
  const beginning = oldest('beginning', 0);
  if (beginning !== undefined && now - beginning.since > graceMs) {
    return { connection: beginning, reason: 'silent' };
  }
  const idle = oldest('idle', 0);
  if (idle !== undefined) return { connection: idle, reason: 'idle' };
  const slow = slowSince(graceMs);
  if (slow !== undefined) return { connection: slow, reason: 'slow' };
  const idleAfterWork = oldest('idleAfterWork', 0);
  if (idleAfterWork !== undefined) {
    const sooner = now - idleAfterWork.since > graceMs ? undefined : slowSince(graceMs * SHORT_GRACE);
    if (sooner !== undefined) return { connection: sooner, reason: 'slow' };
    return { connection: idleAfterWork, reason: 'idle' };
  }
  const unread = oldest('busy', unreadMs, (each) => !each.receiving() && each.unread(now) > unreadMs);
  if (unread !== undefined) return { connection: unread, reason: 'unread' };
  if (!full) return undefined;
  const events = oldest('busy', 0, (each) => !each.receiving() && each.follows());
  if (events !== undefined) return { connection: events, reason: 'events' };
  const uploading = oldest('busy', 0, (each) => each.receiving() && now - each.since <= graceMs);
  if (uploading === undefined || (beginning !== undefined && beginning.since <= uploading.since)) {
    return beginning && { connection: beginning, reason: 'silent' };
  }
  return { connection: uploading, reason: 'slow' };
}

/** Whether the connection's request has begun to arrive before `graceMs`, and arrives slower than `leastRate`. */
export function isSlow(connection: Connection, { graceMs, leastRate }: SheddingLimits, now: number): boolean {
  const age = now - connection.since;
  if (age <= graceMs) return false;
  if (connection.doing === 'beginning') return true;
  return (
    connection.doing === 'busy' && connection.receiving() && connection.received() < (leastRate * age) / 1000
  );
}
