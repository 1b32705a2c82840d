/** Lets the inference thread wait for unfinished tables, for as long as they are worth it. */
import { clockMs } from '../clock.js';
import { profiled } from '../profile/thread-events.js';
import type { Counters } from '../protocol/counters.js';
import { TABLE_ABANDONED, TABLE_PENDING } from '../protocol/hash-table.js';
import type { WakeUp } from '../protocol/wake-up.js';
import type { OpenTables } from './pass-forecast.js';

/** Longest wait, as a share of the usual pass time. The waiting thread is idle, and the table may still fail. */
const WAIT = 0.1;
/** Longest time of building, as a share of the usual pass time. It bounds the cost of a table that saves nothing. */
const BUILD = 0.2;
/** Weight of the latest pass in the moving average. It spans about ten passes, so that one outlier counts little. */
const LATEST = 0.1;
/** Assumed pass time before the first pass: between those of small models and those that wait for a disk. */
const FIRST_PASS_MS = 100;
/** Losses in a row before the first pause. A single table can be late by chance. */
const LOSSES = 8;
/** Time lost in a row before the first pause. A single table of a slow predictor can be too expensive. */
const LOSSES_MS = 100;
/** Shortest pause, as a multiple of the last table's time. */
const PAUSE = 16;
/** Most doublings of a pause: tables of 10 ms are retried about every 10 s. */
const DOUBLINGS = 6;
/** Upper bound of a doubled pause. One expensive table says little about later requests. */
const LONGEST_MS = 60_000;

export class TableWorth {
  readonly #clock: () => number;
  #usualPassMs = FIRST_PASS_MS;
  #passes = 0;
  #losses = 0;
  #lostMs = 0;
  #pauses = 0;
  #pausedUntil = 0;

  /** `clock` returns milliseconds. */
  constructor(clock: () => number) {
    this.#clock = clock;
  }

  /** Records the duration of a pass that tables are built for. */
  passTook(ms: number): void {
    this.#usualPassMs = this.#passes === 0 ? ms : this.#usualPassMs * (1 - LATEST) + ms * LATEST;
    this.#passes += 1;
  }

  /** Longest wait for a table that another thread builds. */
  get waitMs(): number {
    return this.#usualPassMs * WAIT;
  }

  /** By the clock: no tables are built before. */
  get pausedUntilMs(): number {
    return this.#pausedUntil;
  }

  /** Whether table building is paused. */
  get paused(): boolean {
    return this.#clock() < this.#pausedUntil;
  }

  /** Records that building a table delayed its pass by `ms`. */
  delayedPass(ms: number): void {
    if (ms <= this.#usualPassMs * BUILD) this.kept();
    else this.lost(ms);
  }

  /** Records a useful table. */
  kept(): void {
    this.#losses = 0;
    this.#lostMs = 0;
    this.#pauses = 0;
  }

  /** Records a table that was built in vain. */
  lost(tookMs: number): void {
    this.#losses += 1;
    this.#lostMs += tookMs;
    if (this.#losses < LOSSES && this.#lostMs < LOSSES_MS) return;
    const shortest = tookMs * PAUSE;
    const pause = Math.max(shortest, Math.min(shortest * 2 ** this.#pauses, LONGEST_MS));
    this.#pausedUntil = this.#clock() + pause;
    this.#pauses = Math.min(this.#pauses + 1, DOUBLINGS);
  }
}

export class TableWait {
  readonly #arrivals: WakeUp;
  readonly #counters: Counters;
  readonly #worth = new TableWorth(clockMs);

  /** The hash-building thread signals `arrivals` when a table is ready. */
  constructor(arrivals: WakeUp, counters: Counters) {
    this.#arrivals = arrivals;
    this.#counters = counters;
  }

  passTook(ms: number): void {
    this.#worth.passTook(ms);
  }

  /** Waits for a bounded time, then abandons the tables that are still pending. Blocks. */
  settle(tables: OpenTables): void {
    this.#wait(tables, this.#worth.waitMs);
    for (const table of tables) table?.settle(TABLE_ABANDONED);
  }

  /** Waits until all tables are finished, for tables that route. Blocks. */
  finish(tables: OpenTables): void {
    this.#wait(tables, Number.POSITIVE_INFINITY);
  }

  #wait(tables: OpenTables, limitMs: number): void {
    const pending = () => tables.some((table) => table?.state === TABLE_PENDING);
    if (!pending()) return;
    profiled('table wait', () => this.#waitWhile(pending, limitMs));
  }

  #waitWhile(pending: () => boolean, limitMs: number): void {
    const begin = clockMs();
    const end = begin + limitMs;
    for (;;) {
      const seen = this.#arrivals.signals;
      if (!pending()) break;
      const left = end - clockMs();
      if (left <= 0) break;
      this.#arrivals.wait(seen, left);
    }
    this.#counters.tableWaits += 1;
    this.#counters.tableWaitSeconds += (clockMs() - begin) / 1000;
  }
}
