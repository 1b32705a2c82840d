/**
 * Groups requests into batches within a token budget, and sends each batch to the inference thread when it is due and
 * the queue has room. Runs on the main thread. Keys take turns, and so do the jobs of a key, so that none waits for all
 * inputs of another.
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
  /** In order. */
  readonly requests: PreparedRequest[];
  readonly owner: string;
  readonly arrivedMs: number;
}

/** The part of a batcher that the batch feed uses. */
export type BatchMaker = Pick<Batcher, keyof Batcher>;

export class Batcher {
  readonly #options: BatcherOptions;
  /** In the order of their turns: a new job goes last. */
  readonly #jobs = new Map<number, WaitingJob>();
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
      const job = this.#jobs.get(request.job) ?? {
        ...{ requests: [], owner: request.owner, arrivedMs: nowMs },
      };
      job.requests.push(request);
      this.#jobs.set(request.job, job);
      this.#count(request, 1);
    }
  }

  /** Removes the job's waiting requests. Those in batches that were already made stay there. */
  cancel(job: number): void {
    for (const request of this.#jobs.get(job)?.requests ?? []) this.#count(request, -1);
    this.#jobs.delete(job);
  }

  /** Milliseconds until the next batch is due: 0 if it is due now, Infinity if no request waits. */
  dueIn(nowMs: number): number {
    const [first] = this.#jobs.values();
    if (first === undefined) return Number.POSITIVE_INFINITY;
    if (this.full) return 0;
    return Math.max(0, first.arrivedMs + this.#options.waitMs - nowMs);
  }

  /** The first job of a key that is not among `owners`. */
  jobBeside(owners: ReadonlySet<string>): number | undefined {
    for (const [id, { owner }] of this.#jobs) if (!owners.has(owner)) return id;
    return undefined;
  }

  /**
   * Makes the next batch. At least one request must wait. The batch holds requests of the job whose turn it is and of
   * the jobs with the same routing after it, up to the first request that does not fit. What is left of the first job
   * waits for its next turn. `turn` is the job whose turn it is, if not the oldest one's.
   */
  take(turn?: number): MadeBatch {
    const turns = this.#turns();
    const first = turn ?? turns[0]!;
    const { owner, arrivedMs, requests: own } = this.#jobs.get(first)!;
    const { routingK } = own[0]!;
    const taken: PreparedRequest[] = [];
    let tokens = 0;
    for (const id of new Set([first, ...turns])) {
      const { requests } = this.#jobs.get(id)!;
      if (requests[0]!.routingK !== routingK) continue;
      let count = 0;
      for (; count < requests.length; count += 1) {
        const more = sizeOf(requests[count]!);
        if (taken.length + count > 0 && tokens + more > this.#options.maxBatchTokens) break;
        tokens += more;
      }
      for (const request of requests.splice(0, count)) {
        this.#count(request, -1);
        taken.push(request);
      }
      if (requests.length === 0) this.#jobs.delete(id);
      // Requests must not overtake an earlier one that does not fit.
      else break;
    }
    this.#turnOver(owner, first);
    this.#lastBatch += 1;
    return { batch: { id: this.#lastBatch, routingK, requests: taken }, arrivedMs };
  }

  /** The first job of each key, then the second of each, and so on. */
  #turns(): number[] {
    const jobs = new Map<string, number>();
    const turns = [...this.#jobs].map(([id, { owner }]) => {
      const before = jobs.get(owner) ?? 0;
      jobs.set(owner, before + 1);
      return { id, before };
    });
    return turns.sort((a, b) => a.before - b.before).map(({ id }) => id);
  }

  /** Puts the key's jobs behind all others, and among them the job whose turn it was last. */
  #turnOver(owner: string, job: number): void {
    const own = [...this.#jobs].filter(([, waiting]) => waiting.owner === owner);
    for (const [id, waiting] of own.sort(([a], [b]) => Number(a === job) - Number(b === job))) {
      this.#jobs.delete(id);
      this.#jobs.set(id, waiting);
    }
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
  /** In milliseconds. */
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
   * While requests wait for KV pages, the thread takes batches of keys that it does not know. A job of a key that no
   * batch ahead is of goes on at once then, so that it does not wait for the requests of others.
   */
  #newcomer(): number | undefined {
    const { batcher, queue } = this.#options;
    const { consumerBlocked, mostCapacity } = queue;
    if (!consumerBlocked || this.#ahead >= mostCapacity) return undefined;
    this.#owners = this.#ahead === 0 ? [] : this.#owners.slice(-this.#ahead);
    return batcher.jobBeside(new Set(this.#owners.flat()));
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
