/** Reports the statuses and deltas of a kept job in the ledger to a listener. */

import { hasEnded, type JobEvent, type JobRecord } from '../job-queue.js';
import { JobFollower } from './job-follower.js';
import type { LedgerNews } from './ledger-news.js';
import type { LedgerTotals } from './ledger-replies.js';
import type { LedgerRecord } from './ledger-values.js';
import type { RedisLedger } from './redis-ledger.js';

interface WatchEvents {
  onTotals: (totals: LedgerTotals) => void;
  /** Called once, when the job has ended or is lost, or the listener has left. */
  onEnd: () => void;
}

/**
 * Watches the job of `record`, which must not have ended, until the job ends or the returned function is called.
 * Resolves once signals can arrive.
 */
export async function watchJob(
  ledger: RedisLedger,
  news: LedgerNews,
  record: LedgerRecord,
  listener: (event: JobEvent) => void,
  { onTotals, onEnd }: WatchEvents,
): Promise<() => void> {
  const { id, owner, form } = record;
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
  const lose = () => {
    stop();
    listener({ type: 'lost' });
  };
  const follower = new JobFollower(ledger, id, {
    // The job may have ended between two reads. The listener still gets the status `running`.
    onRun: (found) =>
      tell({ ...shown(found, form), status: 'running', finishedMs: null, result: null, error: null }),
    onRecord: (found) => {
      if (!visible(found, owner)) return lose();
      tell(shown(found, form));
      if (hasEnded(found)) stop();
    },
    onDelta: (delta, attempt) => listener({ type: 'delta', attempt, delta }),
    onTotals,
    onBroken: lose,
  });
  follower.from(record);
  await follower.start(news);
  void follower.look();
  return stop;
}

/** True when `owner` can see the record: it exists, is kept, and belongs to `owner`. */
export function visible(record: LedgerRecord | undefined, owner: string): record is LedgerRecord {
  return record !== undefined && !record.sync && record.owner === owner;
}

/** The record without the fields that clients do not see. `known` is its form where it was not read again. */
export function shown(
  { owner: _owner, sync: _sync, form, ...record }: LedgerRecord,
  known = form,
): JobRecord {
  return { ...record, form: known! };
}

function stateOf({ status, attempts }: Pick<JobRecord, 'status' | 'attempts'>): string {
  return `${status} ${attempts}`;
}
