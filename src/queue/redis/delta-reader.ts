/** Takes the deltas of a job's runs from reports that may come twice, late, or not at all. */
import type { CompletionDelta } from '../../protocol/engine-messages.js';
import { deltaOf, type Progress } from './stored-job.js';

export class DeltaReader {
  #turn = 0;
  #run = 0;
  #known = 0;

  /** Whether the report begins another run than the last one. */
  starts({ turn, run }: Progress): boolean {
    return turn > this.#turn || (turn === this.#turn && run > this.#run);
  }

  /** Returns the deltas that are new; undefined when earlier ones are missing. */
  take(report: Progress): CompletionDelta[] | undefined {
    if (this.starts(report)) {
      this.#turn = report.turn;
      this.#run = report.run;
      this.#known = 0;
    }
    // A worker that was frozen may still write about an earlier run.
    if (report.turn !== this.#turn || report.run !== this.#run) return [];
    if (report.seq > this.#known) return undefined;
    const fresh = report.deltas.slice(this.#known - report.seq).map(deltaOf);
    this.#known += fresh.length;
    return fresh;
  }
}
