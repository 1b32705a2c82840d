/** The batch taken from the queue, whose inputs start one after the other as KV pages become free. */
import type { HashTable } from '../predictor/hash-table.js';
import { itemPages, type KvPages } from './kv-pages.js';
import type { BatchItem, EncodeBatch } from './messages.js';

/** An input that has its pages. */
export interface AdmittedItem extends BatchItem {
  tokens: Int32Array;
  pages: number;
}

export class HeldBatch {
  readonly batch: EncodeBatch;
  readonly table: HashTable;
  #next = 0;

  constructor(batch: EncodeBatch, table: HashTable) {
    this.batch = batch;
    this.table = table;
  }

  get finished(): boolean {
    return this.#next === this.batch.items.length;
  }

  /** Inputs that may start now, in order; those of dropped jobs are passed over. */
  admit(pages: KvPages, pageTokens: number, dropped: (job: number) => boolean): AdmittedItem[] {
    const admitted: AdmittedItem[] = [];
    const { items, offsets, tokens } = this.batch;
    for (; this.#next < items.length; this.#next++) {
      const item = items[this.#next]!;
      if (dropped(item.job)) continue;
      const ids = tokens.subarray(offsets[this.#next]!, offsets[this.#next + 1]!);
      const needed = itemPages(ids.length, item.work, pageTokens);
      if (!pages.reserve(needed)) break;
      admitted.push({ ...item, tokens: ids, pages: needed });
    }
    return admitted;
  }
}
