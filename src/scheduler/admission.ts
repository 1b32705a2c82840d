/**
 * Decides which requests start, and which go on after they gave way: takes batches, and gives each key its turn at the
 * KV pages.
 */
import type { OpenTables } from '../forecast/pass-forecast.js';
import type { QueueConsumer } from '../protocol/batch-queue.js';
import type { PreparedRequest, QueuedBatch } from '../protocol/inference-messages.js';
import type { ModelKind } from './kinds/model-kind.js';
import { openRequests, type Request } from './request.js';
import type { RunningRequests } from './running-requests.js';
import { isBefore, nextTurn } from './turns.js';

interface AdmissionOptions {
  queue: QueueConsumer<QueuedBatch>;
  running: RunningRequests;
  kind: ModelKind;
  encodes: boolean;
  /** Called before the first request of a batch starts. Returns the batch's tables. */
  onBatch: (queued: QueuedBatch) => OpenTables;
  /** Starts requests of one batch that have their pages. */
  onStart: (requests: readonly Request[]) => void;
}

export class Admission {
  readonly #options: AdmissionOptions;
  /** Requests without pages by key, the first that is due first. */
  readonly #waiting = new Map<string, Request[]>();
  /** Jobs whose requests are skipped, and the last batch that may hold any of them. */
  readonly #dropped = new Map<number, number>();
  #lastBatch = -1;
  #arrived = 0;

  constructor(options: AdmissionOptions) {
    this.#options = options;
  }

  /** Starts requests, key by key in turn, until one lacks pages or the next pass is full. Returns their number. */
  startRequests(): number {
    const { kind, running, queue, encodes } = this.#options;
    let starts = 0;
    let blocked = false;
    while (!blocked && kind.takesMore(starts)) {
      const next = nextTurn(this.#all(), (owner) => running.of(owner));
      if (next === undefined) {
        if (!this.#takeBatch()) break;
      } else if (this.#start(next)) starts += 1;
      else blocked = !this.#makesWay(next);
    }
    if (blocked && running.count === 0) {
      throw new Error(
        `A request waits for KV pages, ${running.freePages} are free, nothing runs. This is a bug.`,
      );
    }
    // A round of an encoder-decoder model takes one batch in any case.
    queue.blocked = blocked && !encodes;
    return starts;
  }

  /** The request gave its pages away, and waits for its next turn, before all of its key that have not begun. */
  suspend(request: Request): void {
    request.dueMs = Number.NEGATIVE_INFINITY;
    this.#add(request);
  }

  /** Takes out a request that gave way. Returns undefined if it does not wait. */
  stop(item: number): Request | undefined {
    for (const waiting of this.#waiting.values()) {
      const stopped = waiting.find((each) => each.item === item && each.suspended !== null);
      if (stopped === undefined) continue;
      this.#keep(stopped.owner, (each) => each !== stopped);
      return stopped;
    }
    return undefined;
  }

  /** Skips the requests of a job in all batches up to `lastBatch`, also in those that are not taken yet. */
  drop(job: number, lastBatch: number): void {
    for (const owner of [...this.#waiting.keys()]) this.#keep(owner, (each) => each.job !== job);
    if (lastBatch > this.#lastBatch) this.#dropped.set(job, lastBatch);
    else this.#dropped.delete(job);
  }

  *#all(): Iterable<Request> {
    for (const waiting of this.#waiting.values()) yield* waiting;
  }

  /**
   * For a request that lacks pages. If nothing of its key runs, a key with several running requests gives one up.
   * Otherwise requests in batches may have their turn before it: those that are due before all of their key here.
   * Returns false if nothing helps.
   */
  #makesWay({ owner }: Request): boolean {
    const { running, kind, queue, encodes } = this.#options;
    if (running.of(owner) === 0 && kind.makeWay()) return true;
    if (encodes) return false;
    const isDue = ({ dueMs, owner }: PreparedRequest) => {
      const first = this.#waiting.get(owner)?.[0];
      return first === undefined || dueMs < first.dueMs;
    };
    return queue.waiting().some(({ batch }) => batch.requests.some(isDue)) && this.#takeBatch();
  }

  /**
   * Starts the request. If no other key waits, it also starts the next requests of the same batch. Returns false if the
   * request lacks pages.
   */
  #start(first: Request): boolean {
    const { running, encodes, onBatch, onStart } = this.#options;
    const own = this.#waiting.get(first.owner)!;
    const alone = this.#waiting.size === 1 && first.suspended === null;
    const started: Request[] = [];
    for (const request of own) {
      if (request.batch !== first.batch || (started.length > 0 && !alone)) break;
      if (!running.start(request)) break;
      started.push(request);
    }
    if (started.length === 0) return false;
    own.splice(0, started.length);
    if (own.length === 0) this.#waiting.delete(first.owner);
    const { batch } = first;
    if (batch.queued !== null) {
      batch.tables = onBatch(batch.queued);
      batch.queued = null;
    }
    onStart(started);
    // Otherwise a long generation keeps its batch's tables, which are megabytes. A decoder-only sequence has its own
    // table. Only requests that tables route read the batch's tables again, when they go on after they gave way.
    if (!encodes && first.routingK === 0)
      for (const request of started) request.batch = { ...batch, tables: [] };
    return true;
  }

  /** Returns false if no batch waits in the queue. */
  #takeBatch(): boolean {
    const { queue, running, encodes } = this.#options;
    const queued = queue.tryTake();
    if (queued === undefined) return false;
    const { id } = queued.batch;
    const shares = running.keepsPrefixes;
    const opened = openRequests(queued, { order: this.#arrived, shares, encodes });
    this.#lastBatch = id;
    this.#arrived += opened.length;
    for (const request of opened) if (!this.#dropped.has(request.job)) this.#add(request);
    for (const [job, lastBatch] of this.#dropped) if (lastBatch <= id) this.#dropped.delete(job);
    return true;
  }

  #add(request: Request): void {
    const waiting = this.#waiting.get(request.owner) ?? [];
    const before = waiting.findLastIndex((each) => isBefore(each, request));
    waiting.splice(before + 1, 0, request);
    this.#waiting.set(request.owner, waiting);
  }

  #keep(owner: string, keeps: (request: Request) => boolean): void {
    const kept = this.#waiting.get(owner)!.filter(keeps);
    if (kept.length > 0) this.#waiting.set(owner, kept);
    else this.#waiting.delete(owner);
  }
}
