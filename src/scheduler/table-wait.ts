/** Lets the inference thread wait for unfinished tables, for as long as they are worth it. */

import { clockMs } from '../clock.js';
import type { OpenTables } from '../predictor/table-needs.js';
import { TableWorth } from '../predictor/table-worth.js';
import { profiled } from '../profile/thread-events.js';
import type { Counters } from '../protocol/counters.js';
import { TABLE_ABANDONED, TABLE_PENDING } from '../protocol/hash-table.js';
import type { WakeUp } from '../protocol/wake-up.js';

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
