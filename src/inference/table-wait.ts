/** How long the inference thread waits for a table that is still being built: never long enough to lose by it. */

import { clockMs } from '../clock.js';
import type { OpenTables } from '../predictor/expected-visits.js';
import { profiled } from '../profile/thread-events.js';
import { TABLE_ABANDONED, TABLE_PENDING } from '../protocol/hash-table.js';
import type { WakeUp } from '../protocol/wake-up.js';
import type { InferenceCounters } from './counters.js';

/** Longest wait, as a share of a usual pass over prompts. */
const SHARE_OF_PASS = 0.1;
/** Until the first pass. */
const FIRST_WAIT_MS = 10;
/** Weight of the latest pass in the usual one. */
const LATEST = 0.1;

export class TableWait {
  readonly #arrivals: WakeUp;
  readonly #counters: InferenceCounters;
  #usualPassMs: number | undefined;

  /** The builder signals `arrivals` when a table is done. */
  constructor(arrivals: WakeUp, counters: InferenceCounters) {
    this.#arrivals = arrivals;
    this.#counters = counters;
  }

  passTook(ms: number): void {
    this.#usualPassMs = this.#usualPassMs === undefined ? ms : this.#usualPassMs * (1 - LATEST) + ms * LATEST;
  }

  /** Afterwards no table is pending: what does not come in time is abandoned. */
  settle(tables: OpenTables): void {
    this.#wait(tables, this.#usualPassMs === undefined ? FIRST_WAIT_MS : this.#usualPassMs * SHARE_OF_PASS);
    for (const table of tables) table?.settle(TABLE_ABANDONED);
  }

  /** Waits for as long as it takes: where tables route. */
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
