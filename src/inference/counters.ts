/** The inference thread's counters since it started. */

import type { RunStats } from '../native/addon-types.js';
import type { EngineCounters } from '../protocol/engine-messages.js';

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
  readonly #passes = {
    passes: 0,
    tokens: 0,
    expertsNeeded: 0,
    expertsResident: 0,
    expertsPrefetched: 0,
    expertsLate: 0,
    expertsOnDemand: 0,
    bytesMoved: 0,
    prefetchesBegun: 0,
    prefetchesCancelled: 0,
    prefetchesWasted: 0,
    stallSeconds: 0,
    diskReads: 0,
    overtakes: 0,
    passSeconds: 0,
  };

  addPass(stats: RunStats, tokens: number): void {
    const sums = this.#passes;
    sums.passes += 1;
    sums.tokens += tokens;
    sums.expertsNeeded += stats.needed;
    sums.expertsResident += stats.resident;
    sums.expertsPrefetched += stats.prefetched;
    sums.expertsLate += stats.late;
    sums.expertsOnDemand += stats.onDemand;
    sums.bytesMoved += stats.bytesMoved;
    sums.prefetchesBegun += stats.prefetchesBegun;
    sums.prefetchesCancelled += stats.prefetchesCancelled;
    sums.prefetchesWasted += stats.prefetchesWasted;
    sums.stallSeconds += stats.stallNs / 1e9;
    sums.diskReads += stats.diskReads;
    sums.overtakes += stats.overtakes;
    sums.passSeconds += stats.passNs / 1e9;
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
