/**
 * Follows one job in the ledger. Reads the record and the new deltas whenever there is news: each delta once, in
 * order.
 */

import { SidaError } from '../../errors.js';
import type { CompletionDelta } from '../../protocol/engine-messages.js';
import type { LedgerNews } from './ledger-news.js';
import { type LedgerRecord, parseDelta } from './ledger-values.js';
import type { LedgerTotals, RedisLedger } from './redis-ledger.js';

interface Followed {
  /** Another run began since the last look. Called before its deltas. */
  onRun?: (record: LedgerRecord) => void;
  /** Undefined: the ledger does not know the job (any more). Called after every read. */
  onRecord: (record: LedgerRecord | undefined) => void;
  onDelta?: (delta: CompletionDelta, attempt: number) => void;
  onTotals: (totals: LedgerTotals) => void;
  /** The record in Redis is broken. No other call follows. */
  onBroken: (error: SidaError) => void;
}

export class JobFollower {
  readonly #ledger: RedisLedger;
  readonly #id: string;
  readonly #followed: Followed;
  #unfollow: (() => void) | undefined;
  #attempt = 0;
  #known = 0;
  #reading = false;
  #again = false;
  #ended = false;

  constructor(ledger: RedisLedger, id: string, followed: Followed) {
    this.#ledger = ledger;
    this.#id = id;
    this.#followed = followed;
  }

  /** Resolves once news can arrive. Reads nothing before there is news. */
  async start(news: LedgerNews): Promise<void> {
    const unfollow = await news.follow(this.#ledger.newsOf(this.#id), () => void this.look());
    if (this.#ended) unfollow();
    else this.#unfollow = unfollow;
  }

  /** The record's run is known: `onRun` is not called for it. */
  from(record: LedgerRecord): void {
    this.#attempt = record.attempts;
  }

  get ended(): boolean {
    return this.#ended;
  }

  end(): void {
    this.#ended = true;
    this.#unfollow?.();
  }

  async look(): Promise<void> {
    this.#again = true;
    if (this.#reading) return;
    this.#reading = true;
    try {
      while (this.#again && !this.#ended) {
        this.#again = false;
        await this.#read();
      }
    } catch (error) {
      // Redis is away. There will be news once it is back.
      if (error instanceof SidaError) this.#followed.onBroken(error);
    } finally {
      this.#reading = false;
    }
  }

  async #read(): Promise<void> {
    const { record, deltas, totals } = await this.#ledger.read(this.#id, this.#attempt, this.#known);
    this.#followed.onTotals(totals);
    if (this.#ended) return;
    if (record !== undefined && record.attempts !== this.#attempt) {
      this.#attempt = record.attempts;
      this.#known = 0;
      this.#followed.onRun?.(record);
    }
    this.#known += deltas.length;
    for (const text of deltas) {
      const delta = parseDelta(text);
      if (!this.#ended) this.#followed.onDelta?.(delta, this.#attempt);
    }
    if (!this.#ended) this.#followed.onRecord(record);
  }
}
