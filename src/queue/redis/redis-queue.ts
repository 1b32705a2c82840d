/**
 * The producers' side of a queue in Redis, which servers and workers on several machines share. A job is accepted
 * once the ledger has stored it; workers claim it from there.
 */

import type { Redis } from 'ioredis';
import type { RoutingMode } from '../../config/engine-options.js';
import { type ErrorCode, SidaError } from '../../errors.js';
import type { JobRequest } from '../../protocol/engine-messages.js';
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
  cancelled,
  clientGone,
  keyConflict,
  QUEUE_BYTES,
  queueBytesFull,
  queueFull,
  shuttingDown,
} from '../refusals.js';
import { describeJob, ledgerKey } from './describe-job.js';
import { LedgerNews } from './ledger-news.js';
import type { LedgerTotals } from './ledger-replies.js';
import type { LedgerRecord } from './ledger-values.js';
import { refuseTables } from './queue-name.js';
import { producerClient, subscriberClient } from './redis-client.js';
import {
  type Acceptance,
  type LedgerLimits,
  type LedgerStatus,
  type NewJob,
  RedisLedger,
} from './redis-ledger.js';
import { lost, soon, unreachable } from './redis-outage.js';
import { Submission } from './submission.js';
import { shown, visible, watchJob } from './watch-job.js';

export interface RedisQueueOptions extends LedgerLimits {
  url: string;
  /** Most jobs that may wait. */
  bound: number;
  /** Most bytes of all jobs that wait. */
  boundBytes?: number;
  /** Milliseconds from submission to the answer, for jobs whose client waits. */
  deadlineMs: number;
  /** Milliseconds from acceptance to the end, for kept jobs. */
  keptDeadlineMs: number;
  /** Name of the queue; undefined while the served model is unknown. */
  queueName: () => string | undefined;
  /** The workers' --routing; without it, as `exact`. */
  routing?: () => RoutingMode | undefined;
  /** Why nothing runs while the name is unknown. Undefined when the engine's state gives the reason. */
  unnamed?: () => string;
  /** Called for each kept job that this process ends. */
  onKeptEnd?: (end: KeptEnd) => void;
}

/** Milliseconds between status queries. */
const STATUS_MS = 500;

export class RedisQueue implements JobQueue {
  readonly stats: QueueStats = { ...noStats(), fenced: 0 };
  readonly #options: RedisQueueOptions;
  readonly #client: Redis;
  readonly #subscriber: Redis;
  readonly #news: LedgerNews;
  readonly #timer: NodeJS.Timeout;
  /** Jobs whose clients wait. */
  readonly #open = new Set<Submission>();
  /** Undefined until the first use after the queue's name is known. */
  #ledger: RedisLedger | undefined;
  /** The last status; undefined while Redis is lost. */
  #status: LedgerStatus | undefined;
  #draining = false;
  #whenEmpty: (() => void) | undefined;
  /** Running average of a run's duration, for Retry-After. */
  #runMs = 100;

  constructor(options: RedisQueueOptions, onError: (error: Error) => void) {
    this.#options = options;
    this.#client = producerClient(options.url).on('error', onError);
    this.#subscriber = subscriberClient(options.url).on('error', onError);
    this.#news = new LedgerNews(this.#subscriber);
    this.#client.on('close', () => this.#lose());
    this.#client.on('ready', () => void this.#look());
    this.#timer = setInterval(() => void this.#look(), STATUS_MS).unref();
  }

  get outage(): string | undefined {
    if (this.#client.status !== 'ready') return 'Redis cannot be reached';
    if (this.#options.queueName() === undefined) return this.#options.unnamed?.();
    if (this.#status === undefined) return 'Redis does not answer';
    return this.#status.workers > 0 ? undefined : 'No worker serves the model';
  }

  async submit(id: string, request: JobRequest, options: JobOptions = {}): Promise<JobOutcome> {
    if (options.signal?.aborted) throw clientGone();
    const ledger = this.#accepting();
    const { deadlineMs } = this.#options;
    // This server writes the answer, so it needs no form, which can be as large as the request.
    const job = { ...this.#newJob(id, request), sync: true, form: '', deadlineMs };
    const submission = new Submission(ledger, this.#news, job, options, {
      onAccepted: () => {
        this.stats.accepted += 1;
      },
      onTotals: (totals) => this.#take(totals),
      refused: (answer) => this.#refused(answer),
    });
    this.#open.add(submission);
    try {
      const outcome = await submission.outcome;
      this.#count(outcome);
      if (outcome instanceof SidaError) throw outcome;
      return outcome;
    } finally {
      this.#open.delete(submission);
      if (this.#open.size === 0) this.#whenEmpty?.();
    }
  }

  async enqueue(
    id: string,
    owner: string,
    request: JobRequest,
    idempotency?: Idempotency,
  ): Promise<Accepted> {
    // One time limit covers both commands, because the client waits for both.
    return soon(this.#keep(id, owner, request, idempotency));
  }

  async #keep(id: string, owner: string, request: JobRequest, idempotency?: Idempotency): Promise<Accepted> {
    const ledger = this.#accepting();
    const job = this.#newJob(id, request, owner, idempotency);
    const answer = await soon(ledger.accept(job));
    if (answer.as !== 'accepted' && answer.as !== 'exists') throw this.#refused(answer);
    const record = await this.#read(ledger, answer.as === 'exists' ? answer.id : id);
    if (answer.as === 'accepted') this.stats.accepted += 1;
    else this.stats.kept.repeated += 1;
    if (record === undefined) throw lost();
    return { record: shown(record), created: answer.as === 'accepted' };
  }

  async repeated(owner: string, idempotency: Idempotency): Promise<JobRecord | undefined> {
    const ledger = this.#opened();
    const answer = await soon(ledger.earlier(ledgerKey(owner, idempotency)));
    if (answer.as === 'conflict') throw this.#refused(answer);
    if (answer.as !== 'exists') return undefined;
    const record = await this.#read(ledger, answer.id);
    if (record === undefined) return undefined;
    this.stats.kept.repeated += 1;
    return shown(record);
  }

  async find(id: string, owner: string): Promise<JobRecord | undefined> {
    const ledger = this.#opened();
    const record = await this.#read(ledger, id);
    return visible(record, owner) ? shown(record) : undefined;
  }

  async cancel(id: string, owner: string): Promise<JobRecord | undefined> {
    const ledger = this.#opened();
    if ((await this.find(id, owner)) === undefined) return undefined;
    const stopped = await soon(ledger.stop(id, 'cancelled', cancelled().toBody()));
    const record = await this.find(id, owner);
    if (stopped && record !== undefined) this.keptEnded(record);
    return record;
  }

  async watch(
    id: string,
    owner: string,
    listener: (event: JobEvent) => void,
  ): Promise<(() => void) | undefined> {
    const ledger = this.#opened();
    const record = await this.#read(ledger, id);
    if (!visible(record, owner)) return undefined;
    if (hasEnded(record)) return () => undefined;
    const { kept } = this.stats;
    kept.watching += 1;
    return watchJob(ledger, this.#news, record, listener, {
      onTotals: (totals) => this.#take(totals),
      onEnd: () => {
        kept.watching -= 1;
      },
    });
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
    for (const submission of [...this.#open]) submission.giveUp(shuttingDown());
    return finished;
  }

  /** Counts a kept job that this process ended, in this queue or in the process's worker. */
  keptEnded(end: KeptEnd): void {
    if (end.result !== null) this.stats.completed += 1;
    else this.#countError(end.error!.code);
    this.#options.onKeptEnd?.(end);
  }

  /** Closes the connections. Kept jobs stay in Redis. */
  async close(): Promise<void> {
    this.#draining = true;
    clearInterval(this.#timer);
    this.#news.close();
    this.#client.disconnect();
    this.#subscriber.disconnect();
  }

  /** The ledger for a new job. Throws shutting_down while draining, or not_ready as `#opened` does. */
  #accepting(): RedisLedger {
    if (this.#draining) throw shuttingDown();
    return this.#opened();
  }

  /** The ledger. Throws not_ready without a connection or without the queue's name. */
  #opened(): RedisLedger {
    if (this.#client.status !== 'ready') throw unreachable();
    const name = this.#options.queueName();
    if (name === undefined) {
      throw new SidaError({ code: 'not_ready', message: 'The model is not known yet; try again later' });
    }
    if (this.#ledger?.queue !== name) this.#ledger = new RedisLedger(this.#client, name, this.#options);
    return this.#ledger;
  }

  #newJob(id: string, request: JobRequest, owner?: string, idempotency?: Idempotency): NewJob {
    refuseTables(request, this.#options.routing?.());
    const { bound, boundBytes = QUEUE_BYTES, keptDeadlineMs: deadlineMs } = this.#options;
    return { ...describeJob(id, request, owner, idempotency), bound, boundBytes, deadlineMs };
  }

  async #read(ledger: RedisLedger, id: string): Promise<LedgerRecord | undefined> {
    const { record, totals } = await soon(ledger.read(id));
    this.#take(totals);
    return record;
  }

  #refused(answer: Acceptance): SidaError {
    if (answer.as === 'conflict') {
      this.stats.kept.conflicts += 1;
      return keyConflict();
    }
    if (answer.as !== 'full' && answer.as !== 'full-bytes')
      return new SidaError({ code: 'internal', message: 'The job id is taken. This is a bug.' });
    this.stats.refused += 1;
    const { bound, boundBytes = QUEUE_BYTES } = this.#options;
    const { queued = bound, running = 0, workers = 1 } = this.#status ?? {};
    // A worker runs 64 jobs at a time by default.
    const seconds = (this.#runMs * (queued + running)) / (64 * Math.max(1, workers)) / 1000;
    return answer.as === 'full'
      ? queueFull(bound, seconds)
      : queueBytesFull(answer.bytes, boundBytes, seconds);
  }

  #count(outcome: JobOutcome | SidaError): void {
    if (!(outcome instanceof SidaError)) {
      this.stats.completed += 1;
      this.#runMs += (outcome.result.timing.inferenceMs - this.#runMs) / 16;
    } else this.#countError(outcome.code);
  }

  #countError(code: ErrorCode): void {
    if (code === 'cancelled') this.stats.cancelled += 1;
    else if (code === 'deadline_exceeded') this.stats.expired += 1;
    else this.stats.failed += 1;
  }

  #take({ fenced, retried, quarantined, answerBytes, dropped }: LedgerTotals): void {
    Object.assign(this.stats, { fenced, retried, quarantined });
    Object.assign(this.stats.kept, { answerBytes, dropped });
  }

  async #look(): Promise<void> {
    try {
      const ledger = this.#opened();
      const asked = performance.now();
      const status = await ledger.status();
      this.stats.redisSeconds = (performance.now() - asked) / 1000;
      this.#status = status;
      this.stats.waiting = status.queued;
      this.stats.active = status.running;
      this.stats.kept.queued = status.queued;
      this.stats.kept.running = status.running;
      this.stats.kept.ended = status.ended;
      this.#take(status.totals);
      for (const end of status.expired) this.keptEnded(end);
    } catch {
      this.#lose();
    }
  }

  #lose(): void {
    if (this.#status !== undefined) this.stats.outages += 1;
    this.#status = undefined;
  }
}
