/** The inference thread's counters since it started. */
import type { EngineCounters } from '../engine/messages.js';
import type { DeviceUsage, RunStats } from '../native/addon-types.js';

export class InferenceCounters {
  batches = 0;
  idleWaits = 0;
  idleSeconds = 0;
  readonly #passes = {
    passes: 0,
    tokens: 0,
    expertsNeeded: 0,
    expertsResident: 0,
    expertsPrefetched: 0,
    expertsLate: 0,
    expertsOnDemand: 0,
    bytesMoved: 0,
    stallSeconds: 0,
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
    sums.stallSeconds += stats.stallNs / 1e9;
    sums.passSeconds += stats.passNs / 1e9;
  }

  snapshot(now: { tablesQueued: number; activeSequences: number; usage: DeviceUsage }): EngineCounters {
    const { batches, idleWaits, idleSeconds } = this;
    const rssBytes = process.memoryUsage.rss();
    return { batches, ...this.#passes, idleWaits, idleSeconds, ...now, rssBytes };
  }
}
