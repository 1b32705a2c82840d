/** Groups inputs into encoder batches within a token budget, after a short wait for company. Runs on the hash-building thread. */
import type { BatchItem, EncodeBatch } from '../inference/messages.js';
import { type ExpertSet, expertSet } from '../predictor/expert-set.js';
import type { PendingTables } from '../predictor/table-builder.js';
import { type BatchLimits, type BatchOrder, byArrival, byOverlap } from './batch-order.js';
import { encodeBatch } from './encode-batch.js';

export interface PendingItem extends BatchItem {
  tokens: readonly number[];
  /** Experts that tables route its tokens to; 0: the model's routers do. Equal within a batch. */
  routingK: number;
}

export interface BatcherOptions {
  order: BatchOrder;
  /** Tokens of one batch; no item has more. */
  maxBatchTokens: number;
  /** An input passed over this often for one with fewer new experts is chosen first. */
  maxPassedOver: number;
  /** How long the first item of a batch waits for others. */
  waitMs: number;
}

export interface MadeBatch {
  batch: EncodeBatch;
  /** Tables of each item alone; null unless all have them. */
  parts: PendingTables[] | null;
  /** When its oldest item came. */
  arrivedMs: number;
  /** Items that waited on while a younger one went. */
  passedOver: number;
  /** Items that went because they had been passed over too often. */
  overdue: number;
}

/** An item that waits. */
export interface WaitingItem {
  readonly item: PendingItem;
  readonly arrivedMs: number;
  passedOver: number;
  /** Undefined: nobody has tried; null: nobody can say. */
  tables: PendingTables | null | undefined;
  experts: ExpertSet | null;
}

const WINDOW_TOKENS = 16_384;
const WINDOW_BATCHES = 4;

/** So many tokens of the oldest items are named ahead and chosen from by overlap: bounds memory and time. */
export function windowTokens(maxBatchTokens: number): number {
  return Math.max(WINDOW_TOKENS, WINDOW_BATCHES * maxBatchTokens);
}

/** What the builder loop asks of a batcher. */
export type BatchMaker = Pick<Batcher, keyof Batcher>;

export class Batcher {
  readonly #options: BatcherOptions;
  readonly #limits: BatchLimits;
  #waiting: WaitingItem[] = [];
  #tokens = 0;
  #lastBatch = -1;

  constructor(options: BatcherOptions) {
    this.#options = options;
    this.#limits = { maxTokens: options.maxBatchTokens, maxPassedOver: options.maxPassedOver };
  }

  /** Id of the last batch made, -1 before the first. */
  get lastBatch(): number {
    return this.#lastBatch;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  /** Whether what waits fills a batch. */
  get full(): boolean {
    return this.#tokens >= this.#options.maxBatchTokens;
  }

  add(items: readonly PendingItem[], nowMs: number): void {
    for (const item of items) {
      this.#waiting.push({ item, arrivedMs: nowMs, passedOver: 0, tables: undefined, experts: null });
      this.#tokens += item.tokens.length;
    }
  }

  /** Takes the job's items out; those in batches already made stay there. */
  cancel(job: number): void {
    this.#waiting = this.#waiting.filter(({ item }) => item.job !== job);
    this.#tokens = this.#waiting.reduce((sum, { item }) => sum + item.tokens.length, 0);
  }

  /** Milliseconds until the next batch has waited for company, 0 when it is due; Infinity when nothing waits. */
  dueIn(nowMs: number): number {
    const first = this.#waiting[0];
    if (first === undefined) return Number.POSITIVE_INFINITY;
    if (this.full) return 0;
    return Math.max(0, first.arrivedMs + this.#options.waitMs - nowMs);
  }

  /** The oldest item that the order would choose by its tables and that nobody has tried to name. */
  unnamed(): WaitingItem | undefined {
    if (this.#options.order === 'arrival') return undefined;
    return this.#window().find(({ tables }) => tables === undefined);
  }

  /** Gives a waiting item its tables. */
  name(waiting: WaitingItem, tables: PendingTables | null): void {
    waiting.tables = tables;
    waiting.experts = tables && expertSet(tables.filter((table) => table !== null));
  }

  /** The next batch; there must be an item. */
  take(): MadeBatch {
    const { order, maxPassedOver } = this.#options;
    const window = this.#window();
    const choose = order === 'overlap' ? byOverlap : byArrival;
    const chosen = choose(window.map(inputOf), this.#limits);
    const taken = new Set(chosen.map((i) => window[i]!));
    const left = window
      .slice(0, chosen.at(-1))
      .filter((each) => !taken.has(each) && each.item.routingK === window[0]!.item.routingK);
    for (const each of left) each.passedOver += 1;
    this.#waiting = this.#waiting.filter((each) => !taken.has(each));
    const items = [...taken].map(({ item }) => item);
    this.#tokens -= items.reduce((sum, { tokens }) => sum + tokens.length, 0);
    this.#lastBatch += 1;
    const parts = [...taken].map(({ tables }) => tables ?? null);
    return {
      batch: encodeBatch(this.#lastBatch, items),
      parts: parts.every((part) => part !== null) ? parts : null,
      arrivedMs: window[0]!.arrivedMs,
      passedOver: left.length,
      overdue: [...taken].filter(({ passedOver }) => passedOver >= maxPassedOver).length,
    };
  }

  /** What the order sees: the oldest items, all of them where none is chosen by its tables. */
  #window(): WaitingItem[] {
    const { order, maxBatchTokens } = this.#options;
    if (order === 'arrival') return this.#waiting;
    const most = windowTokens(maxBatchTokens);
    let tokens = 0;
    const end = this.#waiting.findIndex(({ item }) => {
      tokens += item.tokens.length;
      return tokens > most;
    });
    return end < 0 ? this.#waiting : this.#waiting.slice(0, end);
  }
}

function inputOf({ item, experts, passedOver }: WaitingItem) {
  return { tokens: item.tokens.length, routingK: item.routingK, experts, passedOver };
}
