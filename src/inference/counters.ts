/** Counters of the inference thread since it started. */
import type { RunStats } from '../native/addon-types.js';
import type { InferenceFigures } from '../protocol/engine-messages.js';
import { addPass, noPasses, type PassCounters } from '../protocol/pass-counters.js';
import { noThreadCounts, type ThreadCounters } from '../protocol/thread-counters.js';

/** The counters that other parts keep. */
type CountersNow = Omit<InferenceFigures, keyof PassCounters | keyof ThreadCounters | 'rssBytes'>;

export class InferenceCounters {
  readonly thread = noThreadCounts();
  readonly #passes = noPasses();

  addPass(stats: RunStats, tokens: number): void {
    addPass(this.#passes, stats, tokens);
  }

  snapshot(now: CountersNow): InferenceFigures {
    return { ...this.thread, ...this.#passes, ...now, rssBytes: process.memoryUsage.rss() };
  }
}
