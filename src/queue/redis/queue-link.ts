/** A server's connection to one queue of BullMQ: its jobs, its events, and the stops that it sends to workers. */
import { type Job, Queue, QueueEvents, QueueEventsProducer, type Telemetry } from 'bullmq';
import type { Redis } from 'ioredis';
import { KEY_PREFIX } from './queue-name.js';
import { later, PATIENT } from './redis-client.js';
import { ownerPart, type StoredJob } from './stored-job.js';

export type LinkEvent =
  /** A worker has taken the job. */
  | { type: 'active' }
  /** The worker that had the job is gone. */
  | { type: 'stalled' }
  | { type: 'progress'; report: unknown }
  | { type: 'completed'; returned: unknown }
  | { type: 'failed'; reason: string };

type Listener = (event: LinkEvent) => void;

/** Most events that Redis keeps. A minute of heavy streaming fits. */
const MOST_EVENTS = 100_000;
/** Events carry answers. Older ones are removed. */
export const EVENTS_MS = 60_000;
/** An answer that is larger goes into the job's log, because events stay for EVENTS_MS. */
export const INLINE_BYTES = 16 * 1024;
/** Jobs and servers agree on it, so that a server's stops reach its workers. */
export const stopsOf = (queueName: string) => `${queueName}-stops`;

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
  readonly #listeners = new Map<string, Set<Listener>>();

  /** Events are those after `sinceMs`, in Unix milliseconds of Redis's clock. `onTaken` is told of every job. */
  constructor(
    client: Redis,
    { url, name, telemetry }: { url: string; name: string; telemetry?: Telemetry | undefined },
    sinceMs: number,
    { onError, onTaken }: { onError: (error: Error) => void; onTaken: (id: string) => void },
  ) {
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
    this.queue.on('error', onError);
    this.#stops.on('error', onError);
    this.#events
      .on('error', onError)
      .on('active', ({ jobId }) => {
        onTaken(jobId);
        this.#tell(jobId, { type: 'active' });
      })
      .on('stalled', ({ jobId }) => this.#tell(jobId, { type: 'stalled' }))
      .on('progress', ({ jobId, data }) => this.#tell(jobId, { type: 'progress', report: data }))
      .on('completed', ({ jobId, returnvalue }) =>
        this.#tell(jobId, { type: 'completed', returned: returnvalue }),
      )
      .on('failed', ({ jobId, failedReason }) => this.#tell(jobId, { type: 'failed', reason: failedReason }));
  }

  /** Calls `listener` for each event of the job until the returned function is called. */
  listen(id: string, listener: Listener): () => void {
    const all = this.#listeners.get(id) ?? new Set();
    this.#listeners.set(id, all.add(listener));
    return () => {
      all.delete(listener);
      if (all.size === 0 && this.#listeners.get(id) === all) this.#listeners.delete(id);
    };
  }

  /** Ids of the jobs that have listeners. */
  get followed(): string[] {
    return [...this.#listeners.keys()];
  }

  #tell(id: string, event: LinkEvent): void {
    for (const listener of [...(this.#listeners.get(id) ?? [])]) listener(event);
  }

  find(id: string): Promise<StoredJob | undefined> {
    return this.queue.getJob(id) as Promise<Job<unknown, unknown, string> | undefined>;
  }

  /** Row `at` of the job's log. */
  async row(id: string, at: number): Promise<string | undefined> {
    return (await this.queue.getJobLogs(id, at, at)).logs[0];
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
    const { wait, prioritized, active, completed, failed } = await this.queue.getJobCounts(
      ...(['wait', 'prioritized', 'active', 'completed', 'failed'] as const),
    );
    return {
      waiting: wait! + prioritized!,
      active: active!,
      completed: completed!,
      failed: failed!,
    };
  }

  /** What Redis has of each job: whether it is there, and whether it has ended. */
  async states(ids: readonly string[]): Promise<('absent' | 'open' | 'ended')[]> {
    const fields = await this.#read((key) => ids.map((id) => ['hmget', key(id), 'timestamp', 'finishedOn']));
    return (fields as (string | null)[][]).map(([timestamp, finishedOn]) =>
      timestamp === null ? 'absent' : finishedOn === null ? 'open' : 'ended',
    );
  }

  /** Removes old events, and ended jobs that are older than `keptMs`. */
  async tidy(keptMs: number, nowMs: number): Promise<void> {
    const oldest = nowMs - EVENTS_MS;
    await Promise.all([
      ...[this.queue.toKey('events'), `${KEY_PREFIX}:${stopsOf(this.name)}:events`].map((key) =>
        this.#client.xtrim(key, 'MINID', oldest),
      ),
      this.queue.clean(keptMs, 1_000, 'completed'),
      this.queue.clean(keptMs, 1_000, 'failed'),
    ]);
  }

  /** Removes ended jobs until `most` are left, each time the oldest of the owner who has most of them. */
  async dropBeyond(most: number): Promise<void> {
    const [completed, failed] = (await this.#read((key) =>
      ['completed', 'failed'].map((set) => ['zrange', key(set), 0, -1, 'WITHSCORES']),
    )) as [string[], string[]];
    const ended = [...pairs(completed), ...pairs(failed)].sort((a, b) => a.endedMs - b.endedMs);
    const byOwner = new Map<string, string[]>();
    for (const { id } of ended) {
      const ids = byOwner.get(ownerPart(id)) ?? [];
      byOwner.set(ownerPart(id), ids);
      ids.push(id);
    }
    for (let excess = ended.length - most; excess > 0; excess -= 1) {
      const [first, ...others] = byOwner.values();
      const largest = others.reduce((a, b) => (b.length > a.length ? b : a), first!);
      await this.queue.remove(largest.shift()!);
    }
  }

  async close(): Promise<void> {
    this.#listeners.clear();
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

function pairs(withScores: readonly string[]): { id: string; endedMs: number }[] {
  const ids = withScores.filter((_, i) => i % 2 === 0);
  return ids.map((id, i) => ({ id, endedMs: Number(withScores[2 * i + 1]) }));
}
