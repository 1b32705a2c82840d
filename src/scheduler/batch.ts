/**
 * Groups requests into batches within a token budget, and sends each batch to the inference thread when it is due and
 * the queue has room. Runs on the main thread. Keys take turns; of a key, the request that is due first goes first.
 */

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
  readonly owner: string;
  readonly arrivedMs: number;
  /** Requests of it that wait. */
  waiting: number;
}

/** The part of a batcher that the batch feed uses. */
export type BatchMaker = Pick<Batcher, keyof Batcher>;

export class Batcher {
  readonly #options: BatcherOptions;
  /** In the order of arrival. */
  readonly #jobs = new Map<number, WaitingJob>();
  /** Waiting requests by key, in the order of due times. Keys are in the order of their turns: a new one goes last. */
  readonly #owners = new Map<string, PreparedRequest[]>();
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
      const { job, owner } = request;
      if (!this.#jobs.has(job)) this.#jobs.set(job, { owner, arrivedMs: nowMs, waiting: 0 });
      const waiting = this.#owners.get(owner) ?? [];
      waiting.push(request);
      this.#owners.set(owner, waiting);
      this.#count(request, 1);
    }
    // Of requests that are due at once, those that came first stay first.
    for (const owner of new Set(requests.map((each) => each.owner)))
      this.#owners.get(owner)!.sort((a, b) => a.dueMs - b.dueMs);
  }

  /** Removes the job's waiting requests. Those in batches that were already made stay there. */
  cancel(job: number): void {
    const { owner } = this.#jobs.get(job) ?? {};
    if (owner === undefined) return;
    const kept: PreparedRequest[] = [];
    for (const request of this.#owners.get(owner)!) {
      if (request.job === job) this.#count(request, -1);
      else kept.push(request);
    }
    this.#keep(owner, kept);
  }

  /** Milliseconds until the next batch is due: 0 if it is due now, Infinity if no request waits. */
  dueIn(nowMs: number): number {
    const [first] = this.#jobs.values();
    if (first === undefined) return Number.POSITIVE_INFINITY;
    if (this.full) return 0;
    return Math.max(0, first.arrivedMs + this.#options.waitMs - nowMs);
  }

  /** The first key whose next request is due before all of the key's requests in `ahead`. */
  overtaking(ahead: readonly PreparedRequest[]): string | undefined {
    for (const [owner, [next]] of this.#owners)
      if (ahead.every((each) => each.owner !== owner || next!.dueMs < each.dueMs)) return owner;
    return undefined;
  }

  /**
   * Makes the next batch. At least one request must wait. The batch holds the next request of each key, then the second
   * of each, and so on, up to the first request that does not fit. All have the routing of the first. `turn` is the key
   * whose turn it is, if not the first one's.
   */
  take(turn?: string): MadeBatch {
    const [first = turn!] = turn === undefined ? this.#owners.keys() : [];
    const cursors = [...new Set([first, ...this.#owners.keys()])].map((owner): Cursor => {
      return { owner, waiting: this.#owners.get(owner)!, at: 0 };
    });
    const { routingK } = cursors[0]!.waiting[0]!;
    const taken = new Set<PreparedRequest>();
    let tokens = 0;
    for (const request of inTurn(cursors, routingK)) {
      tokens += sizeOf(request);
      if (taken.size > 0 && tokens > this.#options.maxBatchTokens) break;
      taken.add(request);
    }
    const requests = [...taken];
    const arrivedMs = Math.min(...requests.map(({ job }) => this.#jobs.get(job)!.arrivedMs));
    for (const request of requests) this.#count(request, -1);
    for (const { owner, waiting, at } of cursors) {
      const passed = waiting.slice(0, at).filter((each) => !taken.has(each));
      this.#keep(owner, [...passed, ...waiting.slice(at)]);
    }
    // The key's next turn comes after those of all others.
    const rest = this.#owners.get(first);
    this.#owners.delete(first);
    if (rest !== undefined) this.#owners.set(first, rest);
    this.#lastBatch += 1;
    return { batch: { id: this.#lastBatch, routingK, requests }, arrivedMs };
  }

  #keep(owner: string, waiting: PreparedRequest[]): void {
    if (waiting.length > 0) this.#owners.set(owner, waiting);
    else this.#owners.delete(owner);
  }

  #count(request: PreparedRequest, sign: 1 | -1): void {
    const job = this.#jobs.get(request.job)!;
    job.waiting += sign;
    if (job.waiting === 0) this.#jobs.delete(request.job);
    this.#waiting += sign;
    this.#tokens += sign * sizeOf(request);
  }
}

interface Cursor {
  owner: string;
  waiting: readonly PreparedRequest[];
  /** Index of the next request. */
  at: number;
}

/** The next request of each key with this routing, then the second of each, and so on. */
function* inTurn(cursors: readonly Cursor[], routingK: number): Iterable<PreparedRequest> {
  for (let left = [...cursors]; left.length > 0; ) {
    left = left.filter((cursor) => {
      while (cursor.waiting[cursor.at] !== undefined && cursor.waiting[cursor.at]!.routingK !== routingK)
        cursor.at += 1;
      return cursor.at < cursor.waiting.length;
    });
    for (const cursor of left) yield cursor.waiting[cursor.at++]!;
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
  /** In milliseconds. */
  clock?: () => number;
}

export class BatchFeed {
  readonly #options: BatchFeedOptions;
  readonly #clock: () => number;
  /** Batches sent so far. */
  #handed = 0;
  /** Requests of the batches that were sent and may not be taken yet, the last batch last. */
  #sent: PreparedRequest[][] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(options: BatchFeedOptions) {
    this.#options = options;
    this.#clock = options.clock ?? (() => performance.now());
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
      const { batch, arrivedMs } = batcher.take(newcomer);
      const tokens = batch.requests.reduce((sum, request) => sum + request.tokens.length, 0);
      profiledFor('batch wait', this.#clock() - arrivedMs, { batch: batch.id, tokens });
      this.#handed += 1;
      this.#sent = [...this.#sent, batch.requests].slice(-this.#ahead);
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
   * While requests wait for KV pages, the thread takes batches of keys that it does not know, and those with a request
   * that is due before the others of its key. Such a request goes on at once then.
   */
  #newcomer(): string | undefined {
    const { batcher, queue } = this.#options;
    const { consumerBlocked, mostCapacity } = queue;
    if (!consumerBlocked || this.#ahead >= mostCapacity) return undefined;
    this.#sent = this.#ahead === 0 ? [] : this.#sent.slice(-this.#ahead);
    return batcher.overtaking(this.#sent.flat());
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
