/**
 * The producers' side of a queue in Redis, which servers and workers on several machines share. BullMQ keeps the jobs,
 * hands them to workers, and gives those of lost workers to others.
 */
import { randomUUID } from 'node:crypto';
import type { Telemetry } from 'bullmq';
import type { Redis } from 'ioredis';
import type { RoutingMode } from '../../config/engine-options.js';
import { type ErrorCode, SidaError } from '../../errors.js';
import type { JobRequest } from '../../protocol/engine-messages.js';
import { taskOf } from '../../tasks/registry.js';
import {
  type Accepted,
  hasEnded,
  type Idempotency,
  type JobEvent,
  type JobOptions,
  type JobOutcome,
  type JobQueue,
  type JobRecord,
  type KeptEnd,
  noStats,
  type QueueStats,
} from '../job-queue.js';
import {
  clientGone,
  keyConflict,
  QUEUE_BYTES,
  queueBytesFull,
  queueFull,
  shuttingDown,
} from '../refusals.js';
import { JobTurns } from './job-turns.js';
import { countWorkers } from './published-models.js';
import { type Counts, QueueLink } from './queue-link.js';
import { refuseTables } from './queue-name.js';
import { lost, producerClient, redisTime, soon, unreachable } from './redis-client.js';
import { dataOf, formOf, type JobData, keptId, type StoredJob } from './stored-job.js';
import { Submission } from './submission.js';
import { JobWatch } from './watch-job.js';

export interface RedisQueueOptions {
  url: string;
  /** Receives spans of jobs. */
  telemetry?: Telemetry | undefined;
  /** Most jobs that may wait. Servers that add at the same moment may exceed it by what they add. */
  bound: number;
  /** Most bytes of the jobs of this server that wait. */
  boundBytes?: number;
  /** Milliseconds from submission to the answer, for jobs whose client waits. */
  deadlineMs: number;
  /** Milliseconds from acceptance to the end, for kept jobs. */
  keptDeadlineMs: number;
  /** Milliseconds that an ended job is kept. */
  keptMs: number;
  /** Most ended jobs that are kept. Beyond that the owner who has most of them loses its oldest. */
  keptJobs: number;
  /** Name of the queue; undefined while the served model is unknown. */
  queueName: () => string | undefined;
  /** The workers' --routing; without it, as `exact`. */
  routing?: () => RoutingMode | undefined;
  /** Totals of the worker in this process. */
  workerStats?: () => Pick<QueueStats, 'retried' | 'quarantined' | 'fenced'> | undefined;
  /** Why nothing runs while the name is unknown. Undefined when the engine's state gives the reason. */
  unnamed?: () => string;
  /** Called for each kept job that this process ends. */
  onKeptEnd?: (end: KeptEnd) => void;
}

/** Milliseconds between status queries. */
const STATUS_MS = 500;
/** Longer than it takes to add a job. */
const ADD_MS = 5_000;
/** Every so many status queries, lost jobs are looked for, and old events and jobs are removed. */
const TIDY = 4;

export class RedisQueue implements JobQueue {
  readonly #stats: QueueStats = { ...noStats(), fenced: 0 };
  readonly #options: RedisQueueOptions;
  readonly #onError: (error: Error) => void;
  readonly #client: Redis;
  readonly #timer: NodeJS.Timeout;
  readonly #turns = new JobTurns();
  /** Jobs whose clients wait, by id. */
  readonly #open = new Map<string, Submission>();
  readonly #watches = new Map<JobWatch, string>();
  /** Jobs of `#open` that were over at the last look, without an event of their end. */
  #unheard = new Set<string>();
  /** Jobs that must be stopped once Redis is back. */
  readonly #unstopped = new Set<string>();
  /** Undefined until Redis answers and the queue's name is known. */
  #link: QueueLink | undefined;
  /** The last status; undefined while Redis is lost. */
  #status: (Counts & { workers: number }) | undefined;
  #looks = 0;
  #looking = false;
  #draining = false;
  #closed = false;
  #whenEmpty: (() => void) | undefined;
  /** Running average of a run's duration, for Retry-After. */
  #runMs = 100;

  constructor(options: RedisQueueOptions, onError: (error: Error) => void) {
    this.#options = options;
    this.#onError = onError;
    this.#client = producerClient(options.url).on('error', onError);
    this.#client.on('close', () => this.#lose());
    this.#client.on('ready', () => void this.#look());
    this.#timer = setInterval(() => void this.#look(), STATUS_MS).unref();
  }

  get stats(): QueueStats {
    return Object.assign(this.#stats, this.#options.workerStats?.());
  }

  get outage(): string | undefined {
    if (this.#client.status !== 'ready') return 'Redis cannot be reached';
    if (this.#options.queueName() === undefined) return this.#options.unnamed?.();
    if (this.#status === undefined) return 'Redis does not answer';
    return this.#status.workers > 0 ? undefined : 'No worker serves the model';
  }

  async submit(id: string, request: JobRequest, options: JobOptions = {}): Promise<JobOutcome> {
    if (options.signal?.aborted) throw clientGone();
    const link = this.#accepting(request);
    const { deadlineMs } = this.#options;
    const job = { id, kind: request.kind, deadlineMs };
    const submission = new Submission(link, job, options, () => this.#stop(id));
    this.#open.set(id, submission);
    const { owner = '', onDelta } = options;
    const data = { owner, sync: true, streams: onDelta !== undefined, digest: '' };
    let accepted = false;
    soon(this.#add(link, id, request, data, deadlineMs)).then(
      () => {
        accepted = true;
        this.#stats.accepted += 1;
        if (this.#open.has(id)) return;
        // The client left while the job was being added.
        this.#turns.remove(id);
        this.#stop(id);
      },
      (error: SidaError) => {
        // Redis may have accepted the job although its reply did not arrive.
        if (error.code === 'not_ready') submission.giveUp(error);
        else submission.settle(error);
      },
    );
    try {
      const outcome = await submission.outcome;
      if (accepted) this.#count(outcome instanceof SidaError ? outcome.code : undefined);
      if (outcome instanceof SidaError) throw outcome;
      this.#runMs += (outcome.result.timing.inferenceMs - this.#runMs) / 16;
      return outcome;
    } finally {
      this.#open.delete(id);
      this.#turns.remove(id);
      if (this.#open.size === 0) this.#whenEmpty?.();
    }
  }

  async enqueue(
    id: string,
    owner: string,
    request: JobRequest,
    idempotency?: Idempotency,
  ): Promise<Accepted> {
    // One time limit covers all commands, because the client waits for them.
    return soon(this.#keep(id, owner, request, idempotency));
  }

  async #keep(id: string, owner: string, request: JobRequest, idempotency?: Idempotency): Promise<Accepted> {
    const link = this.#accepting(request);
    const ownId = keptId(owner, id, idempotency?.key);
    const earlier = idempotency && (await this.#repeated(link, ownId, idempotency));
    if (earlier !== undefined) return { record: earlier, created: false };
    const { digest = '' } = idempotency ?? {};
    const data = { owner, sync: false, streams: true, digest };
    const job = await this.#add(link, ownId, request, data, this.#options.keptDeadlineMs);
    // Of requests that came at the same moment with one key, BullMQ has added the first.
    const first = idempotency === undefined ? job : await link.find(ownId);
    if (first === undefined) throw lost();
    if (dataOf(first).nonce !== dataOf(job).nonce) {
      this.#turns.remove(ownId);
      return { record: await this.#same(link, first, digest), created: false };
    }
    this.#stats.accepted += 1;
    return { record: await link.recordOf(first), created: true };
  }

  async repeated(owner: string, idempotency: Idempotency): Promise<JobRecord | undefined> {
    return soon(this.#repeated(this.#opened(), keptId(owner, '', idempotency.key), idempotency));
  }

  async #repeated(link: QueueLink, id: string, { digest }: Idempotency): Promise<JobRecord | undefined> {
    const job = await link.find(id);
    return job && this.#same(link, job, digest);
  }

  /** The record of an earlier request with the same key. Throws idempotency_conflict when it was another request. */
  async #same(link: QueueLink, job: StoredJob, digest: string): Promise<JobRecord> {
    if (dataOf(job).digest !== digest) {
      this.#stats.kept.conflicts += 1;
      throw keyConflict();
    }
    this.#stats.kept.repeated += 1;
    return link.recordOf(job);
  }

  async find(id: string, owner: string): Promise<JobRecord | undefined> {
    return soon(this.#find(this.#opened(), id, owner));
  }

  async #find(link: QueueLink, id: string, owner: string): Promise<JobRecord | undefined> {
    const job = await link.kept(id, owner);
    return job && link.recordOf(job);
  }

  async cancel(id: string, owner: string): Promise<JobRecord | undefined> {
    const link = this.#opened();
    const found = await soon(link.kept(id, owner).then((job) => job && link.cancel(job)));
    if (found?.ended) this.keptEnded(found.record);
    return found?.record;
  }

  async watch(
    id: string,
    owner: string,
    listener: (event: JobEvent) => void,
  ): Promise<(() => void) | undefined> {
    const link = this.#opened();
    const record = await this.find(id, owner);
    if (record === undefined) return undefined;
    if (hasEnded(record)) return () => undefined;
    this.#stats.kept.watching += 1;
    const watch = new JobWatch(
      {
        link,
        read: () => this.#find(link, id, owner),
        listener,
        onEnd: () => {
          this.#stats.kept.watching -= 1;
          this.#watches.delete(watch);
        },
      },
      record,
    );
    this.#watches.set(watch, id);
    return () => watch.stop();
  }

  async drain(drainMs: number): Promise<boolean> {
    this.#draining = true;
    if (this.#open.size === 0) return true;
    let timer: NodeJS.Timeout | undefined;
    const finished = await new Promise<boolean>((resolve) => {
      this.#whenEmpty = () => resolve(true);
      timer = setTimeout(() => resolve(false), drainMs);
    });
    clearTimeout(timer);
    for (const submission of [...this.#open.values()]) submission.giveUp(shuttingDown());
    return finished;
  }

  /** Counts a kept job that this process ended, in this queue or in the process's worker. */
  keptEnded(end: KeptEnd): void {
    this.#count(end.error?.code);
    this.#options.onKeptEnd?.(end);
  }

  /** Closes the connections. Kept jobs stay in Redis. */
  async close(): Promise<void> {
    this.#draining = true;
    this.#closed = true;
    clearInterval(this.#timer);
    await this.#link?.close();
    this.#client.disconnect();
  }

  /** The link for a new job. Throws shutting_down while draining, or not_ready as `#opened` does. */
  #accepting(request: JobRequest): QueueLink {
    if (this.#draining) throw shuttingDown();
    refuseTables(request, this.#options.routing?.());
    return this.#opened();
  }

  /** Throws not_ready without a connection or without the queue's name. */
  #opened(): QueueLink {
    if (this.#client.status !== 'ready') throw unreachable();
    const name = this.#options.queueName();
    if (name === undefined) {
      throw new SidaError({ code: 'not_ready', message: 'The model is not known yet; try again later' });
    }
    if (this.#link?.name !== name) throw unreachable();
    return this.#link;
  }

  /** Adds a job unless the queue is full. Rejects with queue_full. */
  async #add(
    link: QueueLink,
    id: string,
    request: JobRequest,
    about: Pick<JobData, 'owner' | 'sync' | 'streams' | 'digest'>,
    deadlineMs: number,
  ): Promise<StoredJob> {
    const { bound, boundBytes = QUEUE_BYTES } = this.#options;
    const deadlineAt = Date.now() + deadlineMs;
    const { waiting, lowest } = await link.room();
    const bytes = taskOf(request).tokens.bytes(request);
    const all = this.#turns.bytes + bytes;
    if (waiting >= bound) throw this.#full((seconds) => queueFull(bound, seconds));
    if (this.#turns.bytes > 0 && all > boundBytes)
      throw this.#full((seconds) => queueBytesFull(all, boundBytes, seconds));
    const data: JobData = { ...about, request, form: formOf(request), nonce: randomUUID(), deadlineAt };
    const priority = this.#turns.add(id, about.owner, bytes, lowest);
    // `true` concerns this job alone. An age or a number would concern all ended jobs, also those that are kept.
    const removed = { removeOnComplete: about.sync, removeOnFail: about.sync };
    try {
      const options = { jobId: id, priority, attempts: 1, stackTraceLimit: 0, ...removed };
      return await link.queue.add(request.kind, data, options);
    } catch (error) {
      this.#turns.remove(id);
      throw error;
    }
  }

  #full(refusal: (seconds: number) => SidaError): SidaError {
    this.#stats.refused += 1;
    const { waiting = this.#options.bound, active = 0, workers = 1 } = this.#status ?? {};
    return refusal(this.#msOf(waiting + active, workers) / 1000);
  }

  /** Time in which so many jobs run. A worker runs 64 at a time by default. */
  #msOf(jobs: number, workers: number): number {
    return (this.#runMs * jobs) / (64 * Math.max(1, workers));
  }

  /** Ends a job whose client does not wait any more, now or when Redis is back. */
  #stop(id: string): void {
    const link = this.#link;
    if (link === undefined) return;
    Promise.all([link.stop(id), link.queue.remove(id)]).then(
      () => this.#unstopped.delete(id),
      () => this.#unstopped.add(id),
    );
  }

  /** Counts an ended job. `code` is that of its error. */
  #count(code: ErrorCode | undefined): void {
    if (code === undefined) this.#stats.completed += 1;
    else if (code === 'cancelled') this.#stats.cancelled += 1;
    else if (code === 'deadline_exceeded') this.#stats.expired += 1;
    else this.#stats.failed += 1;
  }

  async #look(): Promise<void> {
    const { keptJobs } = this.#options;
    const name = this.#options.queueName();
    if (this.#looking || this.#closed || name === undefined || this.#client.status !== 'ready') return;
    this.#looking = true;
    try {
      const link = await this.#linkTo(name);
      const asked = performance.now();
      const [counts, workers] = await Promise.all([link.counts(), countWorkers(this.#client, name)]);
      this.#stats.redisSeconds = (performance.now() - asked) / 1000;
      this.#status = { ...counts, workers };
      const { waiting, active, completed, failed } = counts;
      const nextMs = await link.nextWaitMs();
      const waitingSinceMs = nextMs === undefined ? undefined : asked - nextMs;
      Object.assign(this.#stats, { waiting, active, waitingSinceMs, waitMs: this.#msOf(waiting, workers) });
      const ended = completed + failed;
      Object.assign(this.#stats.kept, { queued: waiting, running: active, ended, failed });
      if (ended > keptJobs) await link.dropBeyond(keptJobs);
      if (waiting === 0) this.#turns.forget(asked - ADD_MS);
      for (const id of this.#unstopped) this.#stop(id);
      this.#looks += 1;
      if (this.#looks % TIDY !== 0) return;
      await this.#lookForLost(link);
      await link.tidy(this.#options.keptMs, await redisTime(this.#client));
    } catch (error) {
      if (!this.#closed) this.#lose();
      if (error instanceof Error && /^(OOM|MISCONF)/.test(error.message)) this.#onError(error);
    } finally {
      this.#looking = false;
    }
  }

  /** Opens the link to the queue with this name, and closes that to another. */
  async #linkTo(name: string): Promise<QueueLink> {
    if (this.#link?.name === name) return this.#link;
    const sinceMs = await redisTime(this.#client);
    await this.#link?.close();
    const { url, telemetry } = this.#options;
    const told = { onError: this.#onError, onTaken: (id: string) => this.#turns.remove(id) };
    this.#link = new QueueLink(this.#client, { url, telemetry, name, ...told }, sinceMs);
    await this.#link.queue.waitUntilReady();
    return this.#link;
  }

  /** Ends what waits for jobs that Redis has lost, and for jobs whose ends were not heard. */
  async #lookForLost(link: QueueLink): Promise<void> {
    const ids = [...this.#open.keys(), ...this.#watches.values()];
    const over = new Set(await link.over([...new Set(ids)]));
    for (const [watch, id] of [...this.#watches]) if (over.has(id)) watch.look();
    // A job that was over at the last look, too, has no event of its end under way.
    for (const [id, submission] of [...this.#open])
      if (over.has(id) && this.#unheard.has(id)) await submission.look();
    this.#unheard = over;
  }

  #lose(): void {
    if (this.#status !== undefined) this.#stats.outages += 1;
    this.#status = undefined;
  }
}
