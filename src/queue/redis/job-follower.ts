/**
 * Follows one job in the ledger. On each signal it reads the record and the new deltas, each delta once and in order.
 */
import { SidaError } from '../../errors.js';
import type { CompletionDelta } from '../../protocol/engine-messages.js';
import type { LedgerNews } from './ledger-news.js';
import type { LedgerTotals } from './ledger-replies.js';
import { type LedgerRecord, parseDelta } from './ledger-values.js';
import type { RedisLedger } from './redis-ledger.js';

interface Followed {
  /** Another run has started since the last read. Called before that run's deltas. */
  onRun?: (record: LedgerRecord) => void;
  /** Called after every read. `record` is undefined when the ledger has no such job, or no longer has it. */
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
  #news: LedgerNews | undefined;
  #unfollow: (() => void) | undefined;
  #readAt = Number.NEGATIVE_INFINITY;
  /** Whether the next read must not wait, and what ends a wait that has begun. */
  #urgent = false;
  #hurry = (): void => undefined;
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

  /** Resolves once signals can arrive. Does not read the record by itself. */
  async start(news: LedgerNews): Promise<void> {
    this.#news = news;
    const unfollow = await news.follow(this.#ledger.newsOf(this.#id), (urgent) => void this.look(urgent));
    if (this.#ended) unfollow();
    else this.#unfollow = unfollow;
  }

  /** Takes the record's run as known, so that `onRun` is not called for it. */
  from(record: LedgerRecord): void {
    this.#attempt = record.attempts;
  }

  get ended(): boolean {
    return this.#ended;
  }

  end(): void {
    this.#ended = true;
    this.#hurry();
    this.#unfollow?.();
  }

  /** Reads the job soon, or again after the read in progress; at once if `urgent`. Never rejects. */
  async look(urgent = true): Promise<void> {
    this.#again = true;
    if (urgent) {
      this.#urgent = true;
      this.#hurry();
    }
    if (this.#reading) return;
    this.#reading = true;
    try {
      while (this.#again && !this.#ended) {
        this.#again = false;
        await this.#turn();
        if (!this.#ended) await this.#read();
      }
    } catch (error) {
      // Any other error means that Redis is away. A signal follows once it is back.
      if (error instanceof SidaError) this.#followed.onBroken(error);
    } finally {
      this.#reading = false;
    }
  }

  /** Waits until the next read is due, unless a status has changed. */
  async #turn(): Promise<void> {
    const left = this.#readAt + (this.#news?.gapMs ?? 0) - performance.now();
    // A timer would wait for a millisecond at least.
    if (!this.#urgent && left > 1) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, left);
        this.#hurry = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    this.#hurry = () => undefined;
    this.#urgent = false;
    this.#readAt = performance.now();
  }

  async #read(): Promise<void> {
    const { record, deltas, totals } = await this.#ledger.news(this.#id, this.#attempt, this.#known);
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
