/** The inference thread's counters since it started. */

import type { RunStats } from '../native/addon-types.js';
import type { EngineCounters } from '../protocol/engine-messages.js';
import { addPass, noPasses } from '../protocol/pass-counters.js';

/** What others count. */
type CountersNow = Pick<
  EngineCounters,
  | 'tablesQueued'
  | 'activeSequences'
  | 'usage'
  | 'routingsPredicted'
  | 'routingHitsNarrow'
  | 'routingHitsWide'
  | 'tableWeight'
  | 'beladyBytes'
  | 'tables'
>;

export class InferenceCounters {
  batches = 0;
  idleWaits = 0;
  idleSeconds = 0;
  tableWaits = 0;
  tableWaitSeconds = 0;
  readonly #passes = noPasses();

  addPass(stats: RunStats, tokens: number): void {
    addPass(this.#passes, stats, tokens);
  }

  snapshot(now: CountersNow): EngineCounters {
    const { batches, idleWaits, idleSeconds, tableWaits, tableWaitSeconds } = this;
    const rssBytes = process.memoryUsage.rss();
    return {
      batches,
      ...this.#passes,
      idleWaits,
      idleSeconds,
      tableWaits,
      tableWaitSeconds,
      ...now,
      rssBytes,
    };
  }
}
