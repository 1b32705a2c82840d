/** Groups inputs into encoder batches: in order of arrival, within a token budget, after a short wait for company. */
import type { BatchItem, EncodeBatch } from '../inference/messages.js';
import { profiledFor } from '../profile/thread-events.js';

export interface PendingItem extends BatchItem {
  tokens: readonly number[];
  /** Experts that tables route its tokens to; 0: the model's routers do. Equal within a batch. */
  routingK: number;
}

export interface BatcherOptions {
  /** Tokens of one batch; no item has more. */
  maxBatchTokens: number;
  /** How long the first item of a batch waits for others. */
  waitMs: number;
  /** Hands a batch to the hash-building thread. */
  send: (batch: EncodeBatch) => void;
}

export class Batcher {
  readonly #options: BatcherOptions;
  #items: { item: PendingItem; arrivedMs: number }[] = [];
  #tokens = 0;
  #timer: NodeJS.Timeout | undefined;
  #lastBatch = -1;
  /** Whether the hash-building thread still holds the last batch: the queue behind it is full, or it is at work. */
  #outstanding = false;

  constructor(options: BatcherOptions) {
    this.#options = options;
  }

  /** Id of the last batch sent, -1 before the first. */
  get lastBatch(): number {
    return this.#lastBatch;
  }

  get waiting(): number {
    return this.#items.length;
  }

  add(items: readonly PendingItem[]): void {
    const arrivedMs = performance.now();
    for (const item of items) {
      this.#items.push({ item, arrivedMs });
      this.#tokens += item.tokens.length;
    }
    this.#sendWhenDue();
  }

  /** Takes the job's items out; those in batches already sent stay there. */
  cancel(job: number): void {
    this.#items = this.#items.filter(({ item }) => item.job !== job);
    this.#tokens = this.#items.reduce((sum, { item }) => sum + item.tokens.length, 0);
  }

  /** The batch sent last is in the queue: the hash-building thread takes the next one. */
  accepted(): void {
    this.#outstanding = false;
    this.#sendWhenDue();
  }

  #sendWhenDue(): void {
    clearTimeout(this.#timer);
    const first = this.#items[0];
    if (first === undefined || this.#outstanding) return;
    const { maxBatchTokens, waitMs } = this.#options;
    const waited = performance.now() - first.arrivedMs;
    if (this.#tokens >= maxBatchTokens || waited >= waitMs) this.#sendBatch();
    else this.#timer = setTimeout(() => this.#sendWhenDue(), Math.ceil(waitMs - waited));
  }

  #sendBatch(): void {
    let tokens = 0;
    const first = this.#items[0]!;
    const { routingK } = first.item;
    const items: PendingItem[] = [];
    for (const { item } of this.#items) {
      if (item.routingK !== routingK) continue;
      if (items.length > 0 && tokens + item.tokens.length > this.#options.maxBatchTokens) break;
      tokens += item.tokens.length;
      items.push(item);
    }
    const taken = new Set(items);
    this.#items = this.#items.filter(({ item }) => !taken.has(item));
    this.#tokens -= tokens;
    this.#lastBatch += 1;
    this.#outstanding = true;
    profiledFor('batch wait', performance.now() - first.arrivedMs, { batch: this.#lastBatch, tokens });
    this.#options.send(encodeBatch(this.#lastBatch, items, tokens));
  }
}

function encodeBatch(id: number, items: readonly PendingItem[], total: number): EncodeBatch {
  const offsets = new Int32Array(new SharedArrayBuffer((items.length + 1) * 4));
  const tokens = new Int32Array(new SharedArrayBuffer(total * 4));
  items.forEach((item, i) => {
    tokens.set(item.tokens, offsets[i]!);
    offsets[i + 1] = offsets[i]! + item.tokens.length;
  });
  return {
    id,
    routingK: items[0]!.routingK,
    items: items.map(({ tokens: _, routingK: __, ...item }) => item),
    offsets,
    tokens,
  };
}
