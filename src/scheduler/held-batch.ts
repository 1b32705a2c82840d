/** A batch taken from the queue. Its inputs start as KV pages become free, those of one owner in order. */
import type { OpenTables } from '../predictor/table-needs.js';
import type { BatchItem, PromptBatch } from '../protocol/inference-messages.js';
import { labelTokens } from '../protocol/item-work.js';
import { growingNeed, pageNeed } from './kv-pages.js';
import type { PageLease, PageLeases } from './page-leases.js';

/** An input that has its KV pages. */
export interface AdmittedItem extends BatchItem {
  tokens: Int32Array;
  /** Index of its first token in the batch. */
  begin: number;
  /** Index of its first label token among the batch's label tokens. */
  labelBegin: number;
  lease: PageLease;
  /** Inputs of one scope may share its pages; null if the prefix cache keeps none. */
  scope: string | null;
  /** The most tokens of its sequence, if its pages are taken as it grows; null if it has all pages from the start. */
  most: number | null;
  owner: string;
}

/** An input that has not started. */
interface WaitingInput {
  item: BatchItem;
  tokens: Int32Array;
  begin: number;
  labelBegin: number;
}

export class HeldBatch {
  readonly batch: PromptBatch;
  readonly tables: OpenTables;
  /** By owner. The owner of the first input of the batch is first. */
  readonly #waiting = new Map<string, WaitingInput[]>();

  /** Without `turns`, all inputs count as those of one owner. */
  constructor(batch: PromptBatch, tables: OpenTables, turns = true) {
    this.batch = batch;
    this.tables = tables;
    const { items, offsets, tokens } = batch;
    let labelBegin = 0;
    for (const [at, item] of items.entries()) {
      const begin = offsets[at]!;
      const waiting = { item, tokens: tokens.subarray(begin, offsets[at + 1]!), begin, labelBegin };
      const owner = turns ? ownerOf(item) : '';
      const own = this.#waiting.get(owner);
      if (own === undefined) this.#waiting.set(owner, [waiting]);
      else own.push(waiting);
      labelBegin += labelTokens(item.work);
    }
  }

  /** Owners of inputs that have not started. */
  get owners(): Iterable<string> {
    return this.#waiting.keys();
  }

  has(owner: string): boolean {
    return this.#waiting.has(owner);
  }

  get finished(): boolean {
    return this.#waiting.size === 0;
  }

  drop(job: number): void {
    for (const [owner, own] of this.#waiting) {
      this.#keep(
        owner,
        own.filter(({ item }) => item.job !== job),
      );
    }
  }

  /** Takes pages for inputs of the owner, at most `most` of them, and returns those that may start now, in order. */
  admit(pages: PageLeases, owner: string, most = Number.POSITIVE_INFINITY): AdmittedItem[] {
    const admitted: AdmittedItem[] = [];
    const own = this.#waiting.get(owner) ?? [];
    for (const waiting of own) {
      const found = admitted.length < most ? this.#admit(waiting, pages, owner) : undefined;
      if (found === undefined) break;
      admitted.push(found);
    }
    this.#keep(owner, own.slice(admitted.length));
    return admitted;
  }

  #admit({ item, ...at }: WaitingInput, pages: PageLeases, owner: string): AdmittedItem | undefined {
    const { room } = pages;
    const { length } = at.tokens;
    const scope = pages.cache === null ? null : this.#scope(item);
    const node = scope === null ? null : pages.cache!.find(scope, at.tokens);
    const most = room.encoderDecoder ? null : this.#most(item, length);
    const need = most === null ? pageNeed(length, item.work, room) : growingNeed(length, most, room);
    const lease = pages.lease(need, { node, grows: most !== null });
    return lease && { ...item, ...at, lease, scope, most, owner };
  }

  #keep(owner: string, waiting: WaitingInput[]): void {
    if (waiting.length > 0) this.#waiting.set(owner, waiting);
    else this.#waiting.delete(owner);
  }

  /**
   * Tables that route an input decide what its pages hold, so only inputs that routers route may share pages. Those
   * whose every row is asked for must run.
   */
  #scope({ prefixScope, work }: BatchItem): string | null {
    const runs = work.kind === 'score' || (work.kind === 'generate' && !work.promptLogprobs);
    const alike = this.batch.routingK === 0 && runs;
    return alike && prefixScope !== undefined ? prefixScope : null;
  }

  /** Only a single generation that routers route can give way and be computed again from its tokens alone. */
  #most({ work }: BatchItem, tokens: number): number | null {
    const alone = this.batch.routingK === 0 && work.kind === 'generate' && work.choices.length === 1;
    return alone ? tokens + work.maxTokens - 1 : null;
  }
}

export function ownerOf({ owner = '' }: Pick<BatchItem, 'owner'>): string {
  return owner;
}
