/** A listener to a kept job in the ledger: its statuses and deltas from now on. */

import { hasEnded, type JobEvent, type JobRecord } from '../job-queue.js';
import { JobFollower } from './job-follower.js';
import type { LedgerNews } from './ledger-news.js';
import type { LedgerRecord } from './ledger-values.js';
import type { LedgerTotals, RedisLedger } from './redis-ledger.js';

interface WatchEvents {
  onTotals: (totals: LedgerTotals) => void;
  /** Called once: the job has ended, or the listener has left. */
  onEnd: () => void;
}

/** The job of `record` has not ended. Ends with the job, or when the returned function is called. */
export async function watchJob(
  ledger: RedisLedger,
  news: LedgerNews,
  record: LedgerRecord,
  listener: (event: JobEvent) => void,
  { onTotals, onEnd }: WatchEvents,
): Promise<() => void> {
  const { id, owner } = record;
  let told = stateOf(record);
  const tell = (state: JobRecord) => {
    if (stateOf(state) === told) return;
    told = stateOf(state);
    listener({ type: 'status', record: state });
  };
  const stop = () => {
    if (!follower.ended) onEnd();
    follower.end();
  };
  const follower = new JobFollower(ledger, id, {
    // The job may have ended between two looks. The listener still hears that it ran.
    onRun: (found) =>
      tell({ ...shown(found), status: 'running', finishedMs: null, result: null, error: null }),
    onRecord: (found) => {
      if (!visible(found, owner)) return stop();
      tell(shown(found));
      if (hasEnded(found)) stop();
    },
    onDelta: (delta, attempt) => listener({ type: 'delta', attempt, delta }),
    onTotals,
    onBroken: stop,
  });
  follower.from(record);
  await follower.start(news);
  void follower.look();
  return stop;
}

export function visible(record: LedgerRecord | undefined, owner: string): record is LedgerRecord {
  return record !== undefined && !record.sync && record.owner === owner;
}

export function shown({ owner: _owner, sync: _sync, ...record }: LedgerRecord): JobRecord {
  return record;
}

function stateOf({ status, attempts }: JobRecord): string {
  return `${status} ${attempts}`;
}
