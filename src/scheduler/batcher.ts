/**
 * Groups inputs into batches within a token budget. Owners take turns, and so do the jobs of an owner, so that none
 * waits for all inputs of another.
 */

import type { PromptBatch } from '../protocol/inference-messages.js';
import { labelTokens } from '../protocol/item-work.js';
import { ownerOf } from './held-batch.js';
import { type PendingItem, promptBatch } from './prompt-batch.js';

interface BatcherOptions {
  /** Most tokens that the passes of a batch are fed, labels included. An item with more is a batch of its own. */
  maxBatchTokens: number;
  /** Longest time in milliseconds that the first item of a batch waits for others. */
  waitMs: number;
}

export interface MadeBatch {
  batch: PromptBatch;
  /** When the oldest item of the batch arrived, in milliseconds. */
  arrivedMs: number;
}

interface WaitingJob {
  /** In order. */
  readonly items: PendingItem[];
  readonly routingK: number;
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

  /** Whether the waiting items fill a batch. */
  get full(): boolean {
    return this.#tokens >= this.#options.maxBatchTokens;
  }

  add(items: readonly PendingItem[], nowMs: number): void {
    for (const item of items) {
      const job = this.#jobs.get(item.job);
      if (job !== undefined) job.items.push(item);
      else
        this.#jobs.set(item.job, {
          items: [item],
          routingK: item.routingK,
          owner: ownerOf(item),
          arrivedMs: nowMs,
        });
      this.#count(item, 1);
    }
  }

  /** Removes the job's waiting items. Items in batches that were already made stay there. */
  cancel(job: number): void {
    for (const item of this.#jobs.get(job)?.items ?? []) this.#count(item, -1);
    this.#jobs.delete(job);
  }

  /** Milliseconds until the next batch is due: 0 if it is due now, Infinity if no item waits. */
  dueIn(nowMs: number): number {
    const [first] = this.#jobs.values();
    if (first === undefined) return Number.POSITIVE_INFINITY;
    if (this.full) return 0;
    return Math.max(0, first.arrivedMs + this.#options.waitMs - nowMs);
  }

  /** The first job of an owner that is not among `owners`. */
  jobBeside(owners: ReadonlySet<string>): number | undefined {
    for (const [id, { owner }] of this.#jobs) if (!owners.has(owner)) return id;
    return undefined;
  }

  /**
   * Makes the next batch. At least one item must wait. The batch holds items of the job whose turn it is and of the
   * jobs with the same routing after it, up to the first item that does not fit. What is left of the first job waits
   * for its next turn. `turn` is the job whose turn it is, if not the oldest one's.
   */
  take(turn?: number): MadeBatch {
    const turns = this.#turns();
    const first = turn ?? turns[0]!;
    const { routingK, owner, arrivedMs } = this.#jobs.get(first)!;
    const taken: PendingItem[] = [];
    let tokens = 0;
    for (const id of new Set([first, ...turns])) {
      const job = this.#jobs.get(id)!;
      if (job.routingK !== routingK) continue;
      const { items } = job;
      let count = 0;
      for (; count < items.length; count += 1) {
        const more = sizeOf(items[count]!);
        if (taken.length + count > 0 && tokens + more > this.#options.maxBatchTokens) break;
        tokens += more;
      }
      for (const item of items.splice(0, count)) {
        this.#count(item, -1);
        taken.push(item);
      }
      if (items.length === 0) this.#jobs.delete(id);
      // Items must not overtake an earlier one that does not fit.
      else break;
    }
    this.#turnOver(owner, first);
    this.#lastBatch += 1;
    return { batch: promptBatch(this.#lastBatch, taken), arrivedMs };
  }

  /** The first job of each owner, then the second of each, and so on. */
  #turns(): number[] {
    const jobs = new Map<string, number>();
    const turns = [...this.#jobs].map(([id, { owner }]) => {
      const before = jobs.get(owner) ?? 0;
      jobs.set(owner, before + 1);
      return { id, before };
    });
    return turns.sort((a, b) => a.before - b.before).map(({ id }) => id);
  }

  /** Puts the owner's jobs behind all others, and among them the job whose turn it was last. */
  #turnOver(owner: string, job: number): void {
    const own = [...this.#jobs].filter(([, waiting]) => waiting.owner === owner);
    for (const [id, waiting] of own.sort(([a], [b]) => Number(a === job) - Number(b === job))) {
      this.#jobs.delete(id);
      this.#jobs.set(id, waiting);
    }
  }

  #count(item: PendingItem, sign: 1 | -1): void {
    this.#waiting += sign;
    this.#tokens += sign * sizeOf(item);
  }
}

/** Tokens that the passes of an item are fed, until it generates. */
function sizeOf({ tokens, work }: PendingItem): number {
  return tokens.length + labelTokens(work);
}
