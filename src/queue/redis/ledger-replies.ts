/** Reads the replies of the ledger's scripts. */
import type { ErrorBody } from '../../errors.js';
import type { DropReason, KeptEnd } from '../job-queue.js';

/** A run that a worker has claimed. */
export interface ClaimedRun {
  id: string;
  /** Token of this run. */
  token: string;
  attempt: number;
  /** Number of engine crashes during which this job was running. */
  crashes: number;
  request: string;
  /** True when a client waits for the job. */
  sync: boolean;
  kind: string;
  createdMs: number;
  startedMs: number;
}

/** The result of a claim. */
export interface Claimed {
  runs: ClaimedRun[];
  /** Kept jobs that must not run again and that the claim has ended. */
  ended: KeptEnd[];
  /** Ids of jobs that the claim has removed because their records were broken. */
  broken: string[];
  /** True when other jobs may be waiting. When false, the worker gets a wake-up for the next job. */
  more: boolean;
}

/** Totals of the whole queue, over all servers and workers. */
export interface LedgerTotals {
  /** Runs whose late reports were dropped because another run had replaced them. */
  fenced: number;
  retried: number;
  quarantined: number;
  /** Bytes of all kept answers. */
  answerBytes: number;
  dropped: Record<DropReason, number>;
}

/** One entry of the reply of claim.lua. */
export type ClaimReply =
  | ['run', string, number, number, string, string, string, string, string]
  | ['failed', string, number, string, string, string, string, string]
  | ['broken', string];

export function claimedOf(token: string, [more, replies]: [number, ClaimReply[]]): Claimed {
  const claimed: Claimed = { runs: [], ended: [], broken: [], more: more === 1 };
  for (const reply of replies) {
    if (reply[0] === 'run') {
      const [, id, attempt, crashes, request, sync, kind, createdMs, startedMs] = reply;
      const times = { createdMs: Number(createdMs), startedMs: Number(startedMs) };
      claimed.runs.push({ id, token, attempt, crashes, request, sync: sync === '1', kind, ...times });
    } else if (reply[0] === 'failed') {
      const [, id, attempts, sync, kind, createdMs, finishedMs, error] = reply;
      const job = { id, kind, createdMs: Number(createdMs), finishedMs: Number(finishedMs), attempts };
      if (sync !== '1') claimed.ended.push(failedEnd(job, JSON.parse(error) as ErrorBody));
    } else claimed.broken.push(reply[1]);
  }
  return claimed;
}

export function totalsOf(values: unknown[]): LedgerTotals {
  const [fenced = 0, retried = 0, quarantined = 0, answerBytes = 0, retention = 0, number = 0, bytes = 0] =
    values.map((value) => Number(value) || 0);
  return { fenced, retried, quarantined, answerBytes, dropped: { retention, bytes, number } };
}

/** `late`: id, kind, creation, end and attempts of each job. `error` is theirs, as JSON. */
export function expiredOf(late: string[], error: string): KeptEnd[] {
  const ends: KeptEnd[] = [];
  for (let at = 0; at < late.length; at += 5) {
    const [id, kind] = late.slice(at, at + 2) as [string, string];
    const [createdMs, finishedMs, attempts] = late.slice(at + 2, at + 5).map(Number) as [
      number,
      number,
      number,
    ];
    const job = { id, kind, createdMs, finishedMs, attempts };
    ends.push(failedEnd(job, JSON.parse(error) as ErrorBody));
  }
  return ends;
}

type Late = Pick<KeptEnd, 'id' | 'kind' | 'createdMs' | 'finishedMs' | 'attempts'>;

function failedEnd(job: Late, error: ErrorBody): KeptEnd {
  return { ...job, status: 'failed', startedMs: null, result: null, error };
}
