/** The batch taken from the queue. Its inputs start in order as KV pages become free. */
import type { OpenTables } from '../predictor/expected-visits.js';
import { labelTokens } from '../protocol/item-work.js';
import type { BatchItem, PromptBatch } from '../protocol/thread-messages.js';
import { type KvPages, type PageNeed, pageNeed } from './kv-pages.js';

/** An input whose KV pages are reserved. */
export interface AdmittedItem extends BatchItem {
  tokens: Int32Array;
  /** Index of its first token in the batch. */
  begin: number;
  /** Index of its first label token among the batch's label tokens. */
  labelBegin: number;
  pages: PageNeed;
}

export class HeldBatch {
  readonly batch: PromptBatch;
  readonly tables: OpenTables;
  #next = 0;
  #labelTokens = 0;

  constructor(batch: PromptBatch, tables: OpenTables) {
    this.batch = batch;
    this.tables = tables;
  }

  get finished(): boolean {
    return this.#next === this.batch.items.length;
  }

  /** Reserves pages and returns the inputs that may start now, in order. Skips inputs of dropped jobs. */
  admit(pages: KvPages, dropped: (job: number) => boolean): AdmittedItem[] {
    const admitted: AdmittedItem[] = [];
    const { items, offsets, tokens } = this.batch;
    for (; this.#next < items.length; this.#next++) {
      const item = items[this.#next]!;
      const labels = labelTokens(item.work);
      if (!dropped(item.job)) {
        const begin = offsets[this.#next]!;
        const ids = tokens.subarray(begin, offsets[this.#next + 1]!);
        const needed = pageNeed(ids.length, item.work, pages.room);
        if (!pages.reserve(needed)) break;
        admitted.push({ ...item, tokens: ids, begin, labelBegin: this.#labelTokens, pages: needed });
      }
      this.#labelTokens += labels;
    }
    return admitted;
  }
}
