/**
 * The ledger of one queue. It records which jobs wait, which worker runs each job, which run counts, and the one
 * visible result of each job.
 */
import type { Redis } from 'ioredis';
import { type ErrorBody, SidaError } from '../../errors.js';
import type { JobStatus, KeptEnd } from '../job-queue.js';
import { DELTA_BYTES } from '../refusals.js';
import {
  type Claimed,
  type ClaimReply,
  claimedOf,
  expiredOf,
  type LedgerTotals,
  totalsOf,
} from './ledger-replies.js';
import type { LedgerScript } from './ledger-scripts.js';
import { type LedgerRecord, parseRecord, REQUEST_BYTES } from './ledger-values.js';
import { KEY_PREFIX } from './queue-name.js';
import { callScript } from './redis-client.js';

export interface LedgerLimits {
  /** Most runs of one job. */
  attempts: number;
  /** Milliseconds that an ended job is kept. */
  keptMs: number;
  /** Most bytes of all kept answers together. */
  keptBytes: number;
  /** Most ended jobs that are kept. */
  keptJobs: number;
}

export interface NewJob {
  id: string;
  kind: string;
  owner: string;
  /** True when a client waits for the job. The result is then kept until the client has it or the deadline passes. */
  sync: boolean;
  /** Form of the answer, as JSON. Servers read it back with the result. Empty when a client waits. */
  form: string;
  request: string;
  /** Milliseconds from now; 0 means no deadline. */
  deadlineMs: number;
  /** Most jobs that may wait. */
  bound: number;
  /** Most bytes of all requests that wait. */
  boundBytes: number;
  /** Idempotency key, hashed with the owner; empty without a key. */
  key: string;
  /** Digest of the request; empty without a key. */
  digest: string;
}

export type Acceptance =
  | { as: 'accepted' }
  | { as: 'conflict' }
  | { as: 'full' }
  | { as: 'taken' }
  | { as: 'exists'; id: string }
  /** The requests that wait would have these bytes together. */
  | { as: 'full-bytes'; bytes: number };

export interface Claim {
  /** Token of the runs that this claim starts. */
  token: string;
  worker: string;
  /** Number of jobs that the worker has room for. */
  room: number;
  leaseMs: number;
}

/**
 * The end of a run. `retry` means that the job waits again, `fenced` that another run has replaced this one, and
 * `stopped` that the job was cancelled or passed its deadline.
 */
export type RunEnd = 'ended' | 'retry' | 'fenced' | 'stopped';

/** Fields, deltas and totals. */
type LedgerReply = [unknown[], string[], unknown[]];

export interface LedgerStatus {
  queued: number;
  running: number;
  workers: number;
  /** Ended jobs that are still kept. */
  ended: number;
  totals: LedgerTotals;
  /** Kept jobs that were past their deadline and that this query has ended. */
  expired: KeptEnd[];
}

/** A worker that is silent for this long is dead. ledger.lua has the same constant. */
export const SILENT_MS = 15_000;
/** Time for workers to reconnect and renew their leases once Redis is back. */
const GRACE_MS = 2_000;

const expired = failure('deadline_exceeded', 'The request was not answered within its deadline');
/** Error of a job that does not run again because of its crashes. */
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
  readonly queue: string;
  /** Prefix of every key. */
  readonly prefix: string;
  readonly #client: Redis;
  readonly #limits: LedgerLimits;

  /** `queue` is a name from queueNameOf. */
  constructor(client: Redis, queue: string, limits: LedgerLimits) {
    this.queue = queue;
    this.prefix = `${KEY_PREFIX}:${queue}`;
    this.#client = client;
    this.#limits = limits;
  }

  async accept(job: NewJob): Promise<Acceptance> {
    const { id, kind, owner, sync, form, request, deadlineMs, bound, boundBytes, key, digest } = job;
    const rest = [deadlineMs, bound, key, digest, boundBytes];
    return acceptanceOf(
      await this.#run('ledger-accept', id, kind, owner, sync ? 1 : 0, form, request, ...rest),
    );
  }

  /** What an earlier request with the key led to: `exists` or `conflict`, and neither without one. */
  async earlier({ key, digest }: Pick<NewJob, 'key' | 'digest'>): Promise<Acceptance> {
    // No job is accepted within a bound of 0.
    return acceptanceOf(await this.#run('ledger-accept', '', '', '', 0, '', '', 0, 0, key, digest, 0));
  }

  /**
   * Starts runs of the oldest waiting jobs, including the jobs of dead workers. A repeated claim with the same token
   * gives the same runs.
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

  /** `alone` says that no other job was in the engine at any time of the run. */
  async crash(id: string, token: string, alone: boolean): Promise<RunEnd> {
    const all = [id, token, alone ? 1 : 0, this.#limits.attempts, GIVEN_UP, streamBroken];
    return (await this.#run('ledger-crash', ...this.#kept, ...all)) as RunEnd;
  }

  /** Returns a running job to the queue. The run does not count towards the limit on runs. */
  async handBack(id: string, token: string): Promise<RunEnd> {
    return (await this.#run('ledger-hand-back', ...this.#kept, id, token, streamBroken)) as RunEnd;
  }

  /**
   * Appends deltas to the run, which has `from` deltas before them: a write that is repeated adds nothing. `full` means
   * that the run's deltas exceed DELTA_BYTES.
   */
  async append(
    id: string,
    token: string,
    from: number,
    deltas: string[],
  ): Promise<'ok' | 'full' | 'fenced' | 'stopped'> {
    const answer = await this.#run('ledger-append', id, token, DELTA_BYTES, from, ...deltas);
    return answer as 'ok' | 'full' | 'fenced' | 'stopped';
  }

  /**
   * Sends a worker's heartbeat, which renews the leases of its runs. `serving` says whether the worker takes jobs.
   * Resolves with the time of Redis's clock in Unix milliseconds and, for each run, `ok` or why it no longer counts.
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

  /** Removes a worker that has ended. */
  async leave(worker: string): Promise<void> {
    await this.#client.zrem(`${this.prefix}:ledger:workers`, worker);
  }

  /** Ends a job and its run in any worker. Resolves false when the job had already ended. */
  async stop(
    id: string,
    status: Extract<JobStatus, 'cancelled' | 'failed'>,
    error: ErrorBody,
  ): Promise<boolean> {
    return (await this.#run('ledger-stop', ...this.#kept, id, status, JSON.stringify(error))) === 1;
  }

  /** Drops an answer that its client has received. */
  async taken(id: string): Promise<void> {
    await this.#run('ledger-take', id);
  }

  /** Reads a job's record; undefined when there is no such job. */
  async read(id: string): Promise<{ record: LedgerRecord | undefined; totals: LedgerTotals }> {
    const [fields, , totals] = (await this.#run('ledger-read', id)) as LedgerReply;
    return { record: parseRecord(id, fields), totals: totalsOf(totals) };
  }

  /**
   * Reads a job's record without its form, and the deltas of its current run. When that run is `attempt`, its first
   * `known` deltas are left out. `record` is undefined when there is no such job.
   */
  async news(
    id: string,
    attempt: number,
    known: number,
  ): Promise<{ record: LedgerRecord | undefined; deltas: string[]; totals: LedgerTotals }> {
    const answer = await this.#run('ledger-read', id, String(attempt), known);
    const [fields, deltas, totals] = answer as LedgerReply;
    return { record: parseRecord(id, fields), deltas, totals: totalsOf(totals) };
  }

  /**
   * Ends jobs past their deadline, drops jobs whose retention has ended, and resolves with the state of the queue.
   */
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
    return { queued, running, workers, ended, totals: totalsOf(totals), expired: expiredOf(late, expired) };
  }

  /** Channel of the signals to followers of one job. */
  newsOf(id: string): string {
    return `${this.prefix}:ledger:events:${id}`;
  }

  /** Channel that carries the ids of stopped jobs. */
  get stops(): string {
    return `${this.prefix}:ledger:stops`;
  }

  /** Channel of the wake-ups for one worker. */
  workOf(worker: string): string {
    return `${this.prefix}:ledger:work:${worker}`;
  }

  /** The first arguments of every script that can end jobs. */
  get #kept(): number[] {
    const { keptMs, keptBytes, keptJobs } = this.#limits;
    return [keptMs, keptBytes, keptJobs];
  }

  #run(script: LedgerScript, ...values: (string | number)[]): Promise<unknown> {
    return callScript(this.#client, script, this.prefix, ...values);
  }
}

function acceptanceOf(reply: unknown): Acceptance {
  const [as, more] = reply as [Acceptance['as'], string | number];
  if (as === 'exists') return { as, id: String(more) };
  if (as === 'full-bytes') return { as, bytes: Number(more) };
  return { as };
}

function failure(code: ErrorBody['code'], message: string): string {
  return JSON.stringify(new SidaError({ code, message }).toBody());
}
