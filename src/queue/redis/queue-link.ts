/** A server's connection to one queue of BullMQ: its jobs, its events, and the stops that it sends to workers. */
import { EventEmitter } from 'node:events';
import { Queue, QueueEvents, QueueEventsProducer, type Telemetry } from 'bullmq';
import type { Redis } from 'ioredis';
import { hasEnded, type JobRecord } from '../job-queue.js';
import { KEY_PREFIX } from './queue-name.js';
import { later, PATIENT } from './redis-client.js';
import { dataOf, isKept, ownerPart, recordOf, resultOf, type StoredJob } from './stored-job.js';

const EVENTS = ['active', 'stalled', 'progress', 'completed', 'failed'] as const;

/** BullMQ's event of a job. */
export interface LinkEvent {
  type: (typeof EVENTS)[number];
  /** A report of the worker. */
  data?: unknown;
  returnvalue?: unknown;
  failedReason?: string;
}

/** Most events that Redis keeps. A minute of heavy streaming fits. */
const MOST_EVENTS = 100_000;
/** Events carry answers. Older ones are removed. */
export const EVENTS_MS = 60_000;
/** An answer that is larger goes into the job's log, because events stay for EVENTS_MS. */
export const INLINE_BYTES = 16 * 1024;
/** Jobs and servers agree on it, so that a server's stops reach its workers. */
export const stopsOf = (queueName: string) => `${queueName}-stops`;

export interface LinkOptions {
  url: string;
  name: string;
  telemetry?: Telemetry | undefined;
  onError: (error: Error) => void;
  /** Called when a worker has taken a job of any server. */
  onTaken: (id: string) => void;
}

export interface Counts {
  waiting: number;
  active: number;
  completed: number;
  failed: number;
}

export class QueueLink {
  readonly name: string;
  readonly queue: Queue<unknown, unknown, string>;
  readonly #client: Redis;
  readonly #events: QueueEvents;
  readonly #stops: QueueEventsProducer;
  /** Emits the events of each job under its id. */
  readonly #jobs = new EventEmitter().setMaxListeners(0);
  /** Answers of synchronous jobs that ended before are removed. Unix milliseconds. */
  #clearedMs = 0;

  /** Events are those after `sinceMs`, in Unix milliseconds of Redis's clock. */
  constructor(client: Redis, options: LinkOptions, sinceMs: number) {
    const { url, name, telemetry, onError, onTaken } = options;
    this.name = name;
    this.#client = client;
    const common = { prefix: KEY_PREFIX, skipVersionCheck: true };
    const streams = { events: { maxLen: MOST_EVENTS } };
    this.queue = new Queue(name, { ...common, connection: client, streams, ...(telemetry && { telemetry }) });
    this.#stops = new QueueEventsProducer(stopsOf(name), { ...common, connection: client });
    this.#events = new QueueEvents(name, {
      ...common,
      connection: { url, ...PATIENT },
      lastEventId: `${sinceMs}-0`,
      // BullMQ's watchdog opens a silent connection again a second later.
      blockingTimeout: 2_000,
    });
    const parts: EventEmitter[] = [this.queue, this.#stops, this.#events];
    for (const part of parts) part.on('error', onError);
    this.#events.on('active', ({ jobId }) => onTaken(jobId));
    for (const type of EVENTS)
      this.#events.on(type, (event: { jobId: string }) => this.#jobs.emit(event.jobId, { ...event, type }));
  }

  /** Calls `listener` for each event of the job until the returned function is called. */
  listen(id: string, listener: (event: LinkEvent) => void): () => void {
    this.#jobs.on(id, listener);
    return () => void this.#jobs.off(id, listener);
  }

  find(id: string): Promise<StoredJob | undefined> {
    return this.queue.getJob(id);
  }

  /** Row `at` of the job's log. */
  async row(id: string, at: number): Promise<string | undefined> {
    return (await this.queue.getJobLogs(id, at, at)).logs[0];
  }

  async recordOf(job: StoredJob): Promise<JobRecord> {
    const record = recordOf(job, dataOf(job));
    if (record.status !== 'completed') return record;
    const row = (at: number) => this.row(record.id, at);
    return { ...record, result: (await resultOf(record.kind, job.returnvalue, row)).result };
  }

  /** A kept job of the owner. */
  async kept(id: string, owner: string): Promise<StoredJob | undefined> {
    const job = await this.find(id);
    if (job === undefined) return undefined;
    const data = dataOf(job);
    return data.sync || data.owner !== owner ? undefined : job;
  }

  /** Resolves with the record, and whether this call has ended the job. */
  async cancel(job: StoredJob): Promise<{ record: JobRecord; ended: boolean } | undefined> {
    const id = job.id!;
    const before = await this.recordOf(job);
    if (hasEnded(before)) return { record: before, ended: false };
    const data = dataOf(job);
    const { attempts, startedMs } = before;
    await job.updateData({ ...data, request: null, stopped: { atMs: Date.now(), attempts, startedMs } });
    const now = await this.find(id);
    if (now === undefined) return undefined;
    if (now.finishedOn !== undefined) {
      // The job ended before it was marked.
      await now.updateData({ ...data, request: null });
      return { record: await this.recordOf(now), ended: false };
    }
    // Of requests that came at the same moment, the first has ended the job.
    const ended = (await this.#client.hsetnx(this.queue.toKey(id), 'cancelled', 1)) === 1;
    // A worker ends a running job at once. The next worker with room takes a waiting one and ends it without a run.
    await Promise.all([
      this.stop(id),
      job.changePriority({ lifo: true }),
      // Watchers read the record now.
      this.queue.updateJobProgress(id, { stopped: true }),
    ]);
    return { record: await this.recordOf(now), ended };
  }

  /** Tells all workers to end the job's run, also a run that has not begun. */
  async stop(id: string): Promise<void> {
    await this.#stops.publishEvent({ eventName: 'stop', id }, MOST_EVENTS);
  }

  /** Number of jobs that wait, and the lowest priority of them; undefined when none has one. */
  async room(): Promise<{ waiting: number; lowest: number | undefined }> {
    const [wait, prioritized, first] = await this.#read((key) => [
      ['llen', key('wait')],
      ['zcard', key('prioritized')],
      ['zrange', key('prioritized'), 0, 0, 'WITHSCORES'],
    ]);
    const score = (first as string[])[1];
    return {
      waiting: Number(wait) + Number(prioritized),
      // The lower half counts the jobs of one priority.
      lowest: score === undefined ? undefined : Math.floor(Number(score) / 2 ** 32),
    };
  }

  /** Milliseconds since the next job was added; undefined when none waits. */
  async nextWaitMs(): Promise<number | undefined> {
    const [[stalled], [first]] = (await this.#read((key) => [
      ['lrange', key('wait'), -1, -1],
      ['zrange', key('prioritized'), 0, 0],
    ])) as [string[], string[]];
    const next = stalled ?? first;
    if (next === undefined) return undefined;
    const added = await this.#client.hget(this.queue.toKey(next), 'timestamp');
    return added === null ? undefined : Date.now() - Number(added);
  }

  async counts(): Promise<Counts> {
    const states = ['wait', 'prioritized', 'active', 'completed', 'failed'] as const;
    const { wait, prioritized, active, completed, failed } = await this.queue.getJobCounts(...states);
    return { waiting: wait! + prioritized!, active: active!, completed: completed!, failed: failed! };
  }

  /** Those of the jobs that Redis no longer has, or that have ended. */
  async over(ids: readonly string[]): Promise<string[]> {
    if (ids.length === 0) return [];
    const fields = await this.#read((key) => ids.map((id) => ['hmget', key(id), 'timestamp', 'finishedOn']));
    return ids.filter((_, i) => {
      const [timestamp, finishedOn] = fields[i] as (string | null)[];
      return timestamp === null || finishedOn !== null;
    });
  }

  /** Removes old events, answers whose clients have gone, and ended jobs that are older than `keptMs`. */
  async tidy(keptMs: number, nowMs: number): Promise<void> {
    const untilMs = nowMs - EVENTS_MS;
    const [ids] = (await this.#read((key) => [
      ['zrangebyscore', key('completed'), this.#clearedMs, untilMs],
    ])) as [string[]];
    await Promise.all(ids.filter((id) => !isKept(id)).map((id) => this.queue.remove(id)));
    this.#clearedMs = untilMs;
    const streams = [this.name, stopsOf(this.name)].map((name) => `${KEY_PREFIX}:${name}:events`);
    await Promise.all([
      ...streams.map((key) => this.#client.xtrim(key, 'MINID', untilMs)),
      ...(['completed', 'failed'] as const).map((set) => this.queue.clean(keptMs, 1_000, set)),
    ]);
  }

  /** Removes ended kept jobs until `most` are left, each time the oldest of the owner who has most of them. */
  async dropBeyond(most: number): Promise<void> {
    const sets = await this.#read((key) =>
      ['completed', 'failed'].map((set) => ['zrange', key(set), 0, -1, 'WITHSCORES']),
    );
    const ended = (sets as string[][])
      .flatMap((set) => set.flatMap((id, i) => (i % 2 === 0 ? [{ id, endedMs: Number(set[i + 1]) }] : [])))
      .filter(({ id }) => isKept(id))
      .sort((a, b) => a.endedMs - b.endedMs);
    const byOwner = new Map<string, typeof ended>();
    for (const job of ended) {
      const owner = ownerPart(job.id);
      byOwner.set(owner, [...(byOwner.get(owner) ?? []), job]);
    }
    for (let excess = ended.length - most; excess > 0; excess -= 1) {
      const [largest] = [...byOwner.values()].sort((a, b) => b.length - a.length);
      await this.queue.remove(largest!.shift()!.id);
    }
  }

  async close(): Promise<void> {
    this.#jobs.removeAllListeners();
    const parts = [this.queue, this.#stops, this.#events].map((part) => part.close().catch(() => undefined));
    // A connection that is being opened again never says that it is closed.
    await Promise.race([Promise.all(parts), later(1_000)]);
  }

  /** Replies to commands in one round trip. Rejects with the first error. */
  async #read(commands: (key: (part: string) => string) => (string | number)[][]): Promise<unknown[]> {
    const replies = await this.#client.pipeline(commands((part) => this.queue.toKey(part))).exec();
    return replies!.map(([error, reply]) => {
      if (error !== null) throw error;
      return reply;
    });
  }
}
