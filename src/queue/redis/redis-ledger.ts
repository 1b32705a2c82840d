/** The result ledger of one queue: what each job is, which run of it counts, and its one visible result. */
import type { Redis } from 'ioredis';
import { type ErrorBody, SidaError } from '../../errors.js';
import type { DropReason, JobStatus, KeptEnd } from '../job-queue.js';
import type { LedgerScript } from './ledger-scripts.js';
import { type LedgerRecord, parseRecord, REQUEST_BYTES } from './ledger-values.js';
import { KEY_PREFIX } from './queue-name.js';
import { callScript } from './redis-client.js';

export interface LedgerLimits {
  /** Runs of one job. */
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
  /** Its client waits for it: its pieces are shown as they come, its result is kept until it is taken or the deadline. */
  sync: boolean;
  /** What to read back beside the result. */
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

export interface Begun {
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

/** As a script gives it. */
type BegunFields = [
  attempt: number,
  crashes: number,
  request: string,
  sync: string,
  kind: string,
  createdMs: string,
  startedMs: string,
];

function begunOf(fields: BegunFields): Begun {
  const [attempt, crashes, request, sync, kind, createdMs, startedMs] = fields;
  const times = { createdMs: Number(createdMs), startedMs: Number(startedMs) };
  return { attempt, crashes, request, sync: sync === '1', kind, ...times };
}

/** What became of a run: `fenced` is one that another run replaced, `stopped` one whose job was cancelled. */
export type RunEnd = 'ended' | 'retry' | 'fenced' | 'stopped';

export interface LedgerStatus {
  queued: number;
  /** Queued or running. */
  open: number;
  workers: number;
  /** Ended jobs that are kept. */
  ended: number;
  totals: LedgerTotals;
  /** Kept jobs that were past their deadline and were ended by this look. */
  expired: KeptEnd[];
}

/** Of the whole queue, by all servers and workers. */
export interface LedgerTotals {
  /** Late results of runs that another run had replaced. */
  fenced: number;
  retried: number;
  quarantined: number;
  /** Of the answers that are kept. */
  answerBytes: number;
  dropped: Record<DropReason, number>;
}

/** A worker that was silent for so long is dead. */
export const SILENT_MS = 15_000;
/** Pieces of one streamed completion. */
export const PIECE_BYTES = 16 << 20;
/** Longest wait for a run. */
const LONGEST_WAIT_MS = 7 * 86_400_000;
/** An open job that BullMQ does not know is an orphan only at this age: it may just be being added. */
const ORPHAN_MS = 5_000;

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
    const answer = await this.#run('ledgerAccept', id, kind, owner, sync ? 1 : 0, form, request, ...rest);
    const [as, other] = answer as [Acceptance['as'], string];
    return as === 'exists' ? { as, id: other } : { as };
  }

  /** Undefined: it has ended; its end: it must not run again, and was ended by this. */
  async begin(id: string, token: string): Promise<Begun | KeptEnd | undefined> {
    const errors = [expired, GIVEN_UP, streamBroken, tooLarge];
    const all = [id, token, this.#limits.attempts, REQUEST_BYTES, ...errors];
    const answer = await this.#run('ledgerBegin', ...this.#kept, ...all);
    const [as, ...rest] = answer as [string, ...unknown[]];
    if (as === 'run') return begunOf(rest as BegunFields);
    const [attempts, kind, createdMs, sync, error] = rest as [number, string, string, string, string];
    if (as !== 'failed' || sync === '1') return undefined;
    return failedEnd({ id, kind, createdMs: Number(createdMs), attempts }, JSON.parse(error) as ErrorBody);
  }

  async complete(id: string, token: string, result: string): Promise<RunEnd> {
    return (await this.#run(
      'ledgerFinish',
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
    return (await this.#run('ledgerFinish', ...this.#kept, id, token, 'failed', 'error', text)) as RunEnd;
  }

  /** `alone`: no other job was in the engine at any time of the run. */
  async crash(id: string, token: string, alone: boolean): Promise<RunEnd> {
    const all = [id, token, alone ? 1 : 0, this.#limits.attempts, GIVEN_UP, streamBroken];
    return (await this.#run('ledgerCrash', ...this.#kept, ...all)) as RunEnd;
  }

  async handBack(id: string, token: string): Promise<RunEnd> {
    return (await this.#run('ledgerHandBack', ...this.#kept, id, token, streamBroken)) as RunEnd;
  }

  async append(id: string, token: string, pieces: string[]): Promise<'ok' | 'full' | 'fenced' | 'stopped'> {
    const answer = await this.#run('ledgerPieces', id, token, PIECE_BYTES, ...pieces);
    return answer as 'ok' | 'full' | 'fenced' | 'stopped';
  }

  /** For each run whether it still counts. */
  async check(runs: { id: string; token: string }[]): Promise<('ok' | RunEnd)[]> {
    if (runs.length === 0) return [];
    const pairs = runs.flatMap(({ id, token }) => [id, token]);
    return (await this.#run('ledgerCheck', ...pairs)) as ('ok' | RunEnd)[];
  }

  /** Ends a job that has not ended, and tells the worker that runs it. False: it has ended. */
  async stop(
    id: string,
    status: Extract<JobStatus, 'cancelled' | 'failed'>,
    error: ErrorBody,
  ): Promise<boolean> {
    return (await this.#run('ledgerStop', ...this.#kept, id, status, JSON.stringify(error))) === 1;
  }

  /** Drops an answer that its client has. */
  async taken(id: string): Promise<void> {
    await this.#run('ledgerTaken', id);
  }

  /** The record and its run's pieces after the first `known` ones, which are of run `attempt`. */
  async read(
    id: string,
    attempt = 0,
    known = 0,
  ): Promise<{ record: LedgerRecord | undefined; pieces: string[]; totals: LedgerTotals }> {
    const answer = await this.#run('ledgerRead', id, String(attempt), known);
    const [fields, pieces, totals] = answer as [unknown[], string[], unknown[]];
    return { record: parseRecord(id, fields), pieces, totals: totalsOf(totals) };
  }

  /** Ends what is past its deadline, drops what was kept long enough, and gives what there is. */
  async status(): Promise<LedgerStatus> {
    const answer = await this.#run('ledgerStatus', ...this.#kept, expired, SILENT_MS);
    const [queued, open, workers, ended, totals, late] = answer as [
      number,
      number,
      number,
      number,
      unknown[],
      string[],
    ];
    return { queued, open, workers, ended, totals: totalsOf(totals), expired: expiredOf(late) };
  }

  /** A worker's sign of life; gives Redis's time. */
  async alive(worker: string): Promise<number> {
    return (await this.#run('ledgerAlive', worker)) as number;
  }

  async gone(worker: string): Promise<void> {
    await this.#run('ledgerAlive', worker, 'end');
  }

  /** Open jobs that BullMQ does not know, and those whose entry there was changed by someone else. */
  async strays(entry: string): Promise<{ orphans: string[]; changed: string[] }> {
    const [orphans, changed] = (await this.#run('ledgerStrays', ORPHAN_MS, entry)) as [string[], string[]];
    return { orphans, changed };
  }

  /** Drops a job whose record somebody put another value in the place of. */
  async forget(id: string): Promise<void> {
    await this.#run('ledgerForget', id);
  }

  /** Channel of news about one job. */
  newsOf(id: string): string {
    return `${this.prefix}:ledger:events:${id}`;
  }

  /** Channel of the ids of jobs that were stopped. */
  get stops(): string {
    return `${this.prefix}:ledger:stops`;
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
