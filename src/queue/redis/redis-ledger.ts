/**
 * The ledger of one queue: which jobs wait, who runs which, which run counts, and the one visible result of each job.
 */
import type { Redis } from 'ioredis';
import { type ErrorBody, SidaError } from '../../errors.js';
import type { DropReason, JobStatus, KeptEnd } from '../job-queue.js';
import type { LedgerScript } from './ledger-scripts.js';
import { type LedgerRecord, parseRecord, REQUEST_BYTES } from './ledger-values.js';
import { KEY_PREFIX } from './queue-name.js';
import { callScript } from './redis-client.js';

export interface LedgerLimits {
  /** Most runs of one job. */
  attempts: number;
  /** An ended job is kept for this long. */
  keptMs: number;
  /** Bytes of the answers of all ended jobs that are kept. */
  keptBytes: number;
  /** Number of ended jobs that are kept. */
  keptJobs: number;
}

export interface NewJob {
  id: string;
  kind: string;
  owner: string;
  /** A client waits: it gets deltas as they come, and the result is kept until the client has it, or the deadline. */
  sync: boolean;
  /** Read back beside the result. */
  form: string;
  request: string;
  /** 0: none. */
  deadlineMs: number;
  /** Jobs that may wait. */
  bound: number;
  /** Hashed with the owner; empty: none. */
  key: string;
  digest: string;
}

export type Acceptance = { as: 'accepted' | 'conflict' | 'full' | 'taken' } | { as: 'exists'; id: string };

/** A run that a worker has begun. */
export interface ClaimedRun {
  id: string;
  /** Of this run of the job. */
  token: string;
  attempt: number;
  /** Crashes of engines that this job was in. */
  crashes: number;
  request: string;
  /** Its client waits for it. */
  sync: boolean;
  kind: string;
  createdMs: number;
  startedMs: number;
}

export interface Claim {
  /** Of the runs that this begins. */
  token: string;
  worker: string;
  /** Jobs for which the worker has room. */
  room: number;
  leaseMs: number;
}

/** What became of the jobs that a claim took. */
interface Claimed {
  runs: ClaimedRun[];
  /** Kept jobs that must not run again, and were ended. */
  ended: KeptEnd[];
  /** Ids of jobs whose records were none, and were removed. */
  broken: string[];
  /** Jobs may wait that the worker has not got. False: the worker gets a message when one does. */
  more: boolean;
}

/** The end of a run. `fenced`: another run replaced it. `stopped`: its job was cancelled or past its deadline. */
export type RunEnd = 'ended' | 'retry' | 'fenced' | 'stopped';

export interface LedgerStatus {
  queued: number;
  running: number;
  workers: number;
  /** Ended jobs that are kept. */
  ended: number;
  totals: LedgerTotals;
  /** Kept jobs that were past their deadline and were ended by this look. */
  expired: KeptEnd[];
}

/** Totals of the whole queue, over all servers and workers. */
export interface LedgerTotals {
  /** Late results of runs that another run had replaced. */
  fenced: number;
  retried: number;
  quarantined: number;
  /** Bytes of the answers that are kept. */
  answerBytes: number;
  dropped: Record<DropReason, number>;
}

/** A worker that was silent for so long is dead; the scripts know it too. */
export const SILENT_MS = 15_000;
/** Deltas of one streamed completion. */
export const DELTA_BYTES = 16 << 20;
/** Longest wait for a run. */
const LONGEST_WAIT_MS = 7 * 86_400_000;
/** Workers are connected to a Redis that is back, and have renewed their leases, within this. */
const GRACE_MS = 2_000;

const expired = failure('deadline_exceeded', 'The request was not answered within its deadline');
/** Of a job that is not run again for its crashes. */
export const GIVEN_UP = failure(
  'engine_crashed',
  'This request was given up: it was running when its engine or worker stopped, again and again, so it is not run once more',
);
const streamBroken = failure(
  'engine_crashed',
  'The worker stopped while this answer was being streamed; send the request again',
);
const tooLarge = failure('internal', `The job's request in Redis is larger than ${REQUEST_BYTES} bytes`);

export class RedisLedger {
  /** Of every key. */
  readonly prefix: string;
  readonly #client: Redis;
  readonly #limits: LedgerLimits;

  /** `queue`: see queueNameOf. */
  constructor(client: Redis, queue: string, limits: LedgerLimits) {
    this.prefix = `${KEY_PREFIX}:${queue}`;
    this.#client = client;
    this.#limits = limits;
  }

  async accept(job: NewJob): Promise<Acceptance> {
    const { id, kind, owner, sync, form, request, deadlineMs, bound, key, digest } = job;
    const rest = [deadlineMs, bound, key, digest, LONGEST_WAIT_MS];
    const answer = await this.#run('ledger-accept', id, kind, owner, sync ? 1 : 0, form, request, ...rest);
    const [as, other] = answer as [Acceptance['as'], string];
    return as === 'exists' ? { as, id: other } : { as };
  }

  /**
   * Begins runs of the jobs that have waited longest, those of dead workers among them. A claim that is sent again with
   * its token gives the same runs.
   */
  async claim({ token, worker, room, leaseMs }: Claim): Promise<Claimed> {
    const errors = [expired, GIVEN_UP, streamBroken, tooLarge];
    const most = [this.#limits.attempts, REQUEST_BYTES];
    const rest = [token, worker, room, leaseMs, GRACE_MS, ...most, ...errors];
    const answer = await this.#run('ledger-claim', ...this.#kept, ...rest);
    return claimedOf(token, answer as [number, ClaimReply[]]);
  }

  async complete(id: string, token: string, result: string): Promise<RunEnd> {
    return (await this.#run(
      'ledger-finish',
      ...this.#kept,
      id,
      token,
      'completed',
      'result',
      result,
    )) as RunEnd;
  }

  async fail(id: string, token: string, error: ErrorBody): Promise<RunEnd> {
    const text = JSON.stringify(error);
    return (await this.#run('ledger-finish', ...this.#kept, id, token, 'failed', 'error', text)) as RunEnd;
  }

  /** `alone`: no other job was in the engine at any time of the run. */
  async crash(id: string, token: string, alone: boolean): Promise<RunEnd> {
    const all = [id, token, alone ? 1 : 0, this.#limits.attempts, GIVEN_UP, streamBroken];
    return (await this.#run('ledger-crash', ...this.#kept, ...all)) as RunEnd;
  }

  async handBack(id: string, token: string): Promise<RunEnd> {
    return (await this.#run('ledger-hand-back', ...this.#kept, id, token, streamBroken)) as RunEnd;
  }

  async append(id: string, token: string, deltas: string[]): Promise<'ok' | 'full' | 'fenced' | 'stopped'> {
    const answer = await this.#run('ledger-append', id, token, DELTA_BYTES, ...deltas);
    return answer as 'ok' | 'full' | 'fenced' | 'stopped';
  }

  /**
   * A worker's sign of life, which renews the leases of its runs. `serving`: the worker takes jobs. Gives
   * Redis's time, and for each run whether it still counts.
   */
  async beat(
    worker: string,
    serving: boolean,
    leaseMs: number,
    runs: { id: string; token: string }[],
  ): Promise<{ now: number; answers: ('ok' | RunEnd)[] }> {
    const pairs = runs.flatMap(({ id, token }) => [id, token]);
    const answer = await this.#run('ledger-beat', leaseMs, GRACE_MS, worker, serving ? 1 : 0, ...pairs);
    const [now, ...answers] = answer as [number, ...('ok' | RunEnd)[]];
    return { now, answers };
  }

  /** The worker has ended. */
  async leave(worker: string): Promise<void> {
    await this.#client.zrem(`${this.prefix}:ledger:workers`, worker);
  }

  /** Ends a job that has not ended, and its run in any worker. False: it had ended before. */
  async stop(
    id: string,
    status: Extract<JobStatus, 'cancelled' | 'failed'>,
    error: ErrorBody,
  ): Promise<boolean> {
    return (await this.#run('ledger-stop', ...this.#kept, id, status, JSON.stringify(error))) === 1;
  }

  /** Drops an answer that its client has. */
  async taken(id: string): Promise<void> {
    await this.#run('ledger-take', id);
  }

  /** The record and its run's deltas after the first `known` ones, which are of run `attempt`. */
  async read(
    id: string,
    attempt = 0,
    known = 0,
  ): Promise<{ record: LedgerRecord | undefined; deltas: string[]; totals: LedgerTotals }> {
    const answer = await this.#run('ledger-read', id, String(attempt), known);
    const [fields, deltas, totals] = answer as [unknown[], string[], unknown[]];
    return { record: parseRecord(id, fields), deltas, totals: totalsOf(totals) };
  }

  /** Ends what is past its deadline, drops what was kept long enough, and gives what there is. */
  async status(): Promise<LedgerStatus> {
    const answer = await this.#run('ledger-status', ...this.#kept, expired);
    const [queued, running, workers, ended, totals, late] = answer as [
      number,
      number,
      number,
      number,
      unknown[],
      string[],
    ];
    return { queued, running, workers, ended, totals: totalsOf(totals), expired: expiredOf(late) };
  }

  /** Channel of news about one job. */
  newsOf(id: string): string {
    return `${this.prefix}:ledger:events:${id}`;
  }

  /** Channel of the ids of jobs that were stopped. */
  get stops(): string {
    return `${this.prefix}:ledger:stops`;
  }

  /** Channel that says that a job waits for the worker. */
  workOf(worker: string): string {
    return `${this.prefix}:ledger:work:${worker}`;
  }

  /** What the scripts that end jobs begin with. */
  get #kept(): number[] {
    const { keptMs, keptBytes, keptJobs } = this.#limits;
    return [keptMs, keptBytes, keptJobs];
  }

  #run(script: LedgerScript, ...values: (string | number)[]): Promise<unknown> {
    return callScript(this.#client, script, this.prefix, ...values);
  }
}

/** As the script gives it. */
type ClaimReply =
  | ['run', string, number, number, string, string, string, string, string]
  | ['failed', string, number, string, string, string, string]
  | ['broken', string];

function claimedOf(token: string, [more, replies]: [number, ClaimReply[]]): Claimed {
  const claimed: Claimed = { runs: [], ended: [], broken: [], more: more === 1 };
  for (const reply of replies) {
    if (reply[0] === 'run') {
      const [, id, attempt, crashes, request, sync, kind, createdMs, startedMs] = reply;
      const times = { createdMs: Number(createdMs), startedMs: Number(startedMs) };
      claimed.runs.push({ id, token, attempt, crashes, request, sync: sync === '1', kind, ...times });
    } else if (reply[0] === 'failed') {
      const [, id, attempts, sync, kind, createdMs, error] = reply;
      const job = { id, kind, createdMs: Number(createdMs), attempts };
      if (sync !== '1') claimed.ended.push(failedEnd(job, JSON.parse(error) as ErrorBody));
    } else claimed.broken.push(reply[1]);
  }
  return claimed;
}

function totalsOf(values: unknown[]): LedgerTotals {
  const [fenced = 0, retried = 0, quarantined = 0, answerBytes = 0, retention = 0, number = 0, bytes = 0] =
    values.map((value) => Number(value) || 0);
  return { fenced, retried, quarantined, answerBytes, dropped: { retention, bytes, number } };
}

function expiredOf(late: string[]): KeptEnd[] {
  const ends: KeptEnd[] = [];
  for (let at = 0; at < late.length; at += 4) {
    const [id, kind, createdMs, attempts] = late.slice(at, at + 4) as [string, string, string, string];
    const job = { id, kind, createdMs: Number(createdMs), attempts: Number(attempts) };
    ends.push(failedEnd(job, JSON.parse(expired) as ErrorBody));
  }
  return ends;
}

function failedEnd(job: Pick<KeptEnd, 'id' | 'kind' | 'createdMs' | 'attempts'>, error: ErrorBody): KeptEnd {
  return { ...job, status: 'failed', startedMs: null, finishedMs: null, result: null, error };
}

function failure(code: ErrorBody['code'], message: string): string {
  return JSON.stringify(new SidaError({ code, message }).toBody());
}
