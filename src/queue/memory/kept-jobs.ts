/**
 * Keeps the records of jobs in this process's memory, with their owners, idempotency keys and listeners, and drops
 * ended jobs by age. When all together exceed the bytes or the number, the owner who holds most of it loses its oldest.
 * A record is never changed, only replaced, so callers may hold on to it.
 */

import { SidaError } from '../../errors.js';
import type { CompletionDelta, JobRequest } from '../../protocol/engine-messages.js';
import { appendDelta, openDelta } from '../../protocol/engine-messages.js';
import { taskOf } from '../../tasks/registry.js';
import { jsonBytes } from '../../text/json-pieces.js';
import {
  type DropReason,
  hasEnded,
  type Idempotency,
  type JobEvent,
  type JobOutcome,
  type JobRecord,
  type KeptStats,
} from '../job-queue.js';
import { answerTooLarge, DELTA_BYTES, keyConflict } from '../refusals.js';

interface Retention {
  /** Milliseconds that a job is kept after its end. Queued and running jobs always stay. */
  retentionMs: number;
  /** Most bytes of all kept answers together. */
  answerBytes: number;
  /** Most ended jobs that are kept. */
  answers: number;
}

type Listener = (event: JobEvent) => void;

interface Kept {
  owner: string;
  record: JobRecord;
  /** Monotonic times, because the wall clock of the record's times may be set back or forward. */
  createdAt: number;
  endedAt: number;
  /** Size of the answer as JSON, about; 0 without an answer. */
  bytes: number;
  idempotency: Idempotency | undefined;
  listeners: Set<Listener>;
  /** Deltas of the current run, joined, for listeners that arrive later; by choice. */
  deltas: Map<number, Extract<JobEvent, { type: 'delta' }>>;
  /** Their size as JSON. */
  deltaBytes: number;
}

/** What one owner holds: its ended jobs in the order of their ends, and the bytes of their answers. */
interface Share {
  ended: Set<Kept>;
  bytes: number;
}

export class KeptJobs {
  readonly #retention: Retention;
  readonly #stats: KeptStats;
  readonly #onEnd: (record: JobRecord) => void;
  readonly #byId = new Map<string, Kept>();
  /** Job ids by owner and idempotency key. */
  readonly #byKey = new Map<string, string>();
  /** Ended jobs in the order of their ends. */
  readonly #ended = new Set<Kept>();
  readonly #shares = new Map<string, Share>();
  #sweep: NodeJS.Timeout | undefined;

  /** `onEnd` receives the last record of each job. */
  constructor(retention: Retention, stats: KeptStats, onEnd: (record: JobRecord) => void) {
    this.#retention = retention;
    this.#stats = stats;
    this.#onEnd = onEnd;
  }

  /**
   * The job that an earlier request created with this key; undefined without one. Throws idempotency_conflict when
   * that request was a different one.
   */
  repeated(owner: string, { key, digest }: Idempotency): JobRecord | undefined {
    this.#dropOld();
    const kept = this.#byId.get(this.#byKey.get(keyOf(owner, key)) ?? '');
    if (kept === undefined) return undefined;
    if (kept.idempotency?.digest !== digest) {
      this.#stats.conflicts += 1;
      throw keyConflict();
    }
    this.#stats.repeated += 1;
    return kept.record;
  }

  add(id: string, owner: string, request: JobRequest, idempotency?: Idempotency): JobRecord {
    if (this.#byId.has(id)) throw new Error(`Job ${id} is kept already. This is a bug.`);
    const record: JobRecord = {
      id,
      kind: request.kind,
      status: 'queued',
      form: taskOf(request).form(request),
      createdMs: Date.now(),
      startedMs: null,
      finishedMs: null,
      attempts: 0,
      result: null,
      error: null,
    };
    const createdAt = performance.now();
    this.#byId.set(id, {
      owner,
      record,
      createdAt,
      endedAt: 0,
      bytes: 0,
      idempotency,
      listeners: new Set(),
      deltas: new Map(),
      deltaBytes: 0,
    });
    if (idempotency !== undefined) this.#byKey.set(keyOf(owner, idempotency.key), id);
    this.#stats.queued += 1;
    return record;
  }

  find(id: string, owner: string): JobRecord | undefined {
    return this.#find(id, owner)?.record;
  }

  watch(id: string, owner: string, listener: Listener): (() => void) | undefined {
    const kept = this.#find(id, owner);
    if (kept === undefined) return undefined;
    const { listeners } = kept;
    // Those that follow are appended to the kept ones.
    for (const { delta, ...event } of kept.deltas.values()) listener({ ...event, delta: openDelta(delta) });
    // The set needs a new function for each call, so that one listener can watch twice.
    const own: Listener = (event) => listener(event);
    listeners.add(own);
    this.#stats.watching += 1;
    return () => {
      if (listeners.delete(own)) this.#stats.watching -= 1;
    };
  }

  running(id: string, attempts: number): void {
    const kept = this.#byId.get(id)!;
    this.#replace(kept, { status: 'running', attempts, startedMs: now(kept) });
  }

  queued(id: string, attempts: number): void {
    const kept = this.#byId.get(id)!;
    forgetDeltas(kept);
    this.#replace(kept, { status: 'queued', attempts });
  }

  /** Returns false when the deltas of the run are larger than DELTA_BYTES, so that the job cannot go on. */
  delta(id: string, attempt: number, delta: CompletionDelta): boolean {
    const kept = this.#byId.get(id)!;
    kept.deltaBytes += Buffer.byteLength(JSON.stringify(delta));
    if (kept.deltaBytes > DELTA_BYTES) return false;
    const before = kept.deltas.get(delta.index);
    if (before === undefined)
      kept.deltas.set(delta.index, { type: 'delta', attempt, delta: openDelta(delta) });
    else appendDelta(before.delta, delta);
    tell(kept, { type: 'delta', attempt, delta });
    return true;
  }

  end(id: string, outcome: JobOutcome | SidaError): void {
    const kept = this.#byId.get(id)!;
    const finishedMs = now(kept);
    kept.endedAt = performance.now();
    if (outcome instanceof SidaError) {
      const status = outcome.code === 'cancelled' ? 'cancelled' : 'failed';
      this.#replace(kept, { status, finishedMs, error: outcome.toBody() });
    } else {
      kept.bytes = jsonBytes(outcome.result);
      if (kept.bytes <= this.#retention.answerBytes) {
        this.#replace(kept, { status: 'completed', finishedMs, result: outcome.result });
      } else {
        const error = answerTooLarge(kept.bytes, this.#retention.answerBytes).toBody();
        this.#replace(kept, { status: 'failed', finishedMs, error });
        kept.bytes = 0;
      }
    }
    if (kept.record.result === null) this.#stats.failed += 1;
    this.#onEnd(kept.record);
    const share = this.#shares.get(kept.owner) ?? { ended: new Set(), bytes: 0 };
    this.#shares.set(kept.owner, share);
    this.#ended.add(kept);
    share.ended.add(kept);
    share.bytes += kept.bytes;
    this.#stats.answerBytes += kept.bytes;
    this.#dropExcess(share);
    this.#scheduleSweep();
  }

  #find(id: string, owner: string): Kept | undefined {
    this.#dropOld();
    const kept = this.#byId.get(id);
    return kept?.owner === owner ? kept : undefined;
  }

  #replace(kept: Kept, change: Partial<JobRecord>): void {
    const before = kept.record;
    kept.record = { ...before, ...change };
    this.#stats[figureOf(before)] -= 1;
    this.#stats[figureOf(kept.record)] += 1;
    tell(kept, { type: 'status', record: kept.record });
    if (!hasEnded(kept.record)) return;
    forgetDeltas(kept);
    this.#stats.watching -= kept.listeners.size;
    kept.listeners.clear();
  }

  #dropOld(): void {
    const oldest = performance.now() - this.#retention.retentionMs;
    for (const kept of this.#ended) {
      if (kept.endedAt > oldest) break;
      this.#drop(kept, 'retention');
    }
    this.#scheduleSweep();
  }

  /** `grown` loses before others that hold as much. */
  #dropExcess(grown: Share): void {
    const { answerBytes, answers } = this.#retention;
    const dropOf = (size: (share: Share) => number, reason: DropReason) => {
      const shares = [...this.#shares.values()];
      const largest = shares.reduce((most, share) => (size(share) > size(most) ? share : most), grown);
      const [first] = largest.ended;
      this.#drop(first!, reason);
    };
    while (this.#stats.answerBytes > answerBytes) dropOf(({ bytes }) => bytes, 'bytes');
    while (this.#ended.size > answers) dropOf(({ ended }) => ended.size, 'number');
  }

  #drop(kept: Kept, reason: DropReason): void {
    const share = this.#shares.get(kept.owner)!;
    share.ended.delete(kept);
    share.bytes -= kept.bytes;
    if (share.ended.size === 0) this.#shares.delete(kept.owner);
    this.#ended.delete(kept);
    this.#byId.delete(kept.record.id);
    if (kept.idempotency !== undefined) this.#byKey.delete(keyOf(kept.owner, kept.idempotency.key));
    this.#stats.ended -= 1;
    if (kept.record.result === null) this.#stats.failed -= 1;
    this.#stats.answerBytes -= kept.bytes;
    this.#stats.dropped[reason] += 1;
  }

  /** Sets a timer that drops old jobs even when no request arrives. */
  #scheduleSweep(): void {
    if (this.#sweep !== undefined || this.#ended.size === 0) return;
    const [first] = this.#ended;
    const dueMs = Math.max(0, first!.endedAt + this.#retention.retentionMs - performance.now());
    this.#sweep = setTimeout(() => {
      this.#sweep = undefined;
      this.#dropOld();
    }, dueMs + 1).unref();
  }
}

/** The current time in Unix milliseconds, never before the job's creation. */
function now({ record, createdAt }: Kept): number {
  return record.createdMs + Math.round(performance.now() - createdAt);
}

function figureOf(record: JobRecord): 'queued' | 'running' | 'ended' {
  if (hasEnded(record)) return 'ended';
  return record.status === 'queued' ? 'queued' : 'running';
}

function forgetDeltas(kept: Kept): void {
  kept.deltas = new Map();
  kept.deltaBytes = 0;
}

function tell({ listeners }: Kept, event: JobEvent): void {
  for (const listener of [...listeners]) listener(event);
}

/** Neither part contains a NUL, so the key is unambiguous. */
function keyOf(owner: string, key: string): string {
  return `${owner}\0${key}`;
}
