/**
 * Groups requests into batches within a token budget, and sends each batch to the inference thread when it is due and
 * the queue has room. Runs on the main thread. Keys take turns; of a key, the job that is due first goes first.
 */

import { clockMs } from '../clock.js';
import { profiledFor } from '../profile/thread-events.js';
import type { QueueGauge } from '../protocol/batch-queue.js';
import type { PreparedRequest, PromptBatch } from '../protocol/inference-messages.js';
import { labelTokens } from '../protocol/item-work.js';

interface BatcherOptions {
  /** Most tokens that the passes of a batch are fed, labels included. A request with more is a batch of its own. */
  maxBatchTokens: number;
  /** Longest time in milliseconds that the first request of a batch waits for others. */
  waitMs: number;
}

export interface MadeBatch {
  batch: PromptBatch;
  /** When the oldest request of the batch arrived, in milliseconds. */
  arrivedMs: number;
}

interface WaitingJob {
  readonly id: number;
  readonly owner: string;
  readonly routingK: number;
  readonly arrivedMs: number;
  readonly requests: PreparedRequest[];
  /** Index of its next request. */
  next: number;
  /** Later than that of its requests once it has had a turn after them. */
  dueMs: number;
}

/** The part of a batcher that the batch feed uses. */
export type BatchMaker = Pick<Batcher, keyof Batcher>;

export class Batcher {
  readonly #options: BatcherOptions;
  /** In the order of arrival. */
  readonly #jobs = new Map<number, WaitingJob>();
  /** Jobs by key, in the order of due times. Keys are in the order of their turns: a new one goes last. */
  readonly #owners = new Map<string, WaitingJob[]>();
  #waiting = 0;
  #tokens = 0;
  #lastBatch = -1;

  constructor(options: BatcherOptions) {
    this.#options = options;
  }

  /** Id of the last batch, or -1 before the first. */
  get lastBatch(): number {
    return this.#lastBatch;
  }

  get waiting(): number {
    return this.#waiting;
  }

  /** Whether the waiting requests fill a batch. */
  get full(): boolean {
    return this.#tokens >= this.#options.maxBatchTokens;
  }

  add(requests: readonly PreparedRequest[], nowMs: number): void {
    for (const request of requests) {
      const job = this.#jobs.get(request.job) ?? this.#open(request, nowMs);
      job.requests.push(request);
      this.#count(request, 1);
    }
  }

  /** Removes the job's waiting requests. Those in batches that were already made stay there. */
  cancel(id: number): void {
    const job = this.#jobs.get(id);
    if (job === undefined) return;
    for (const request of job.requests.slice(job.next)) this.#count(request, -1);
    this.#close(job);
  }

  /** Milliseconds until the next batch is due: 0 if it is due now, Infinity if no request waits. */
  dueIn(nowMs: number): number {
    const [first] = this.#jobs.values();
    if (first === undefined) return Number.POSITIVE_INFINITY;
    if (this.full) return 0;
    return Math.max(0, first.arrivedMs + this.#options.waitMs - nowMs);
  }

  /** The first key that is not among `owners`. */
  keyBeside(owners: ReadonlySet<string>): string | undefined {
    for (const owner of this.#owners.keys()) if (!owners.has(owner)) return owner;
    return undefined;
  }

  /**
   * Makes the next batch. At least one request must wait. The batch holds the next request of each key, then the second
   * of each, and so on, up to the first request that does not fit. All have the routing of the first. `turn` is the key
   * whose turn it is, if not the first one's.
   */
  take(nowMs: number, turn?: string): MadeBatch {
    const first = turn ?? this.#owners.keys().next().value!;
    const { routingK } = this.#owners.get(first)![0]!;
    const requests: PreparedRequest[] = [];
    let tokens = 0;
    let arrivedMs = nowMs;
    for (const job of this.#inTurn(first, routingK)) {
      const request = job.requests[job.next]!;
      tokens += sizeOf(request);
      if (requests.length > 0 && tokens > this.#options.maxBatchTokens) break;
      requests.push(request);
      arrivedMs = Math.min(arrivedMs, job.arrivedMs);
      this.#count(request, -1);
      this.#pass(job, nowMs);
    }
    // The key goes behind all others.
    const rest = this.#owners.get(first);
    this.#owners.delete(first);
    if (rest !== undefined) this.#owners.set(first, rest);
    this.#lastBatch += 1;
    return { batch: { id: this.#lastBatch, routingK, requests }, arrivedMs };
  }

  /** The next job of each key with this routing, then the second of each, and so on. */
  *#inTurn(first: string, routingK: number): Iterable<WaitingJob> {
    const left = new Set([first, ...this.#owners.keys()]);
    while (left.size > 0) {
      for (const owner of left) {
        const job = this.#owners.get(owner)?.find((each) => each.routingK === routingK);
        if (job === undefined) left.delete(owner);
        else yield job;
      }
    }
  }

  /** A job that is due takes turns with the others of its key, so that none waits for all of its requests. */
  #pass(job: WaitingJob, nowMs: number): void {
    job.next += 1;
    if (job.next === job.requests.length) this.#close(job);
    else if (job.dueMs <= nowMs) {
      const own = this.#owners.get(job.owner)!;
      job.dueMs = own.at(-1)!.dueMs;
      own.splice(own.indexOf(job), 1);
      own.push(job);
    }
  }

  #open({ job: id, owner, routingK, dueMs }: PreparedRequest, arrivedMs: number): WaitingJob {
    const job = { id, owner, routingK, arrivedMs, requests: [], next: 0, dueMs };
    const own = this.#owners.get(owner) ?? [];
    // Of jobs that are due at once, those that came first stay first.
    own.splice(own.findLastIndex((each) => each.dueMs <= dueMs) + 1, 0, job);
    this.#owners.set(owner, own);
    this.#jobs.set(id, job);
    return job;
  }

  #close(job: WaitingJob): void {
    const own = this.#owners.get(job.owner)!;
    own.splice(own.indexOf(job), 1);
    if (own.length === 0) this.#owners.delete(job.owner);
    this.#jobs.delete(job.id);
  }

  #count(request: PreparedRequest, sign: 1 | -1): void {
    this.#waiting += sign;
    this.#tokens += sign * sizeOf(request);
  }
}

/** Tokens that the passes of a request are fed, until it generates. */
function sizeOf({ tokens, work }: PreparedRequest): number {
  return tokens.length + labelTokens(work);
}

interface BatchFeedOptions {
  batcher: BatchMaker;
  queue: QueueGauge;
  /** Puts the batch into the queue. Calls keep their order. */
  handOn: (batch: PromptBatch) => void;
  /** Default: `clockMs`, the clock of due times. */
  clock?: () => number;
}

export class BatchFeed {
  readonly #options: BatchFeedOptions;
  readonly #clock: () => number;
  /** Batches sent so far. */
  #handed = 0;
  /** Keys of the batches that were sent and may not be taken yet, the last batch last. */
  #owners: string[][] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(options: BatchFeedOptions) {
    this.#options = options;
    this.#clock = options.clock ?? clockMs;
  }

  add(requests: readonly PreparedRequest[]): void {
    this.#options.batcher.add(requests, this.#clock());
    this.#handOn();
  }

  /** Removes the job's waiting requests. Returns the id of the last batch that may hold any of the job's requests. */
  cancel(job: number): number {
    const { batcher } = this.#options;
    batcher.cancel(job);
    return batcher.lastBatch;
  }

  /** Sends due batches whenever the inference thread takes a batch or becomes idle. Never resolves. */
  async follow(): Promise<never> {
    const { departures } = this.#options.queue;
    for (;;) {
      const seen = departures.signals;
      this.#handOn();
      await departures.signalled(seen);
    }
  }

  #handOn(): void {
    const { batcher, handOn } = this.#options;
    for (;;) {
      const newcomer = this.#newcomer();
      if (newcomer === undefined && !this.#due()) break;
      const { batch, arrivedMs } = batcher.take(this.#clock(), newcomer);
      const tokens = batch.requests.reduce((sum, request) => sum + request.tokens.length, 0);
      profiledFor('batch wait', this.#clock() - arrivedMs, { batch: batch.id, tokens });
      this.#handed += 1;
      this.#owners = [...this.#owners, batch.requests.map(({ owner }) => owner)].slice(-this.#ahead);
      handOn(batch);
    }
    clearTimeout(this.#timer);
    if (batcher.waiting === 0 || this.#ahead > 0) return;
    // A timer may fire slightly early. In that case #handOn sets it again.
    this.#timer = setTimeout(() => this.#handOn(), Math.ceil(batcher.dueIn(this.#clock())));
  }

  /** Batches that were sent and not yet taken by the inference thread. */
  get #ahead(): number {
    return (this.#handed - this.#options.queue.taken) | 0;
  }

  /**
   * While requests wait for KV pages, the thread takes batches of keys that it does not know. A key that no batch ahead
   * is of goes on at once then, so that it does not wait for the requests of others.
   */
  #newcomer(): string | undefined {
    const { batcher, queue } = this.#options;
    const { consumerBlocked, mostCapacity } = queue;
    if (!consumerBlocked || this.#ahead >= mostCapacity) return undefined;
    this.#owners = this.#ahead === 0 ? [] : this.#owners.slice(-this.#ahead);
    return batcher.keyBeside(new Set(this.#owners.flat()));
  }

  #due(): boolean {
    const { batcher, queue } = this.#options;
    if (batcher.waiting === 0) return false;
    // While another batch is ahead, a partial batch loses no time by waiting, and it may fill up.
    if (this.#ahead > 0) return batcher.full && this.#ahead < queue.capacity;
    // If the inference thread is idle, send the batch at once. More requests can arrive while it runs.
    return queue.consumerIdle || batcher.dueIn(this.#clock()) === 0;
  }
}
