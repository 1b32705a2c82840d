/**
 * Claims jobs for a worker while its engine is ready and the worker has room. It claims on a wake-up, when a full
 * worker ends a run, and periodically, because Redis may lose messages and dead workers send none.
 */
import type { JobRuns, Run } from './job-runs.js';

interface ClaimsOptions {
  runs: JobRuns;
  /** Most runs at a time. */
  concurrency: number;
  /** Milliseconds between periodic claims. */
  everyMs: number;
  /** True while the engine is ready. */
  ready: () => boolean;
  onError: (error: Error) => void;
}

export class JobClaims {
  readonly #options: ClaimsOptions;
  readonly #timer: NodeJS.Timeout;
  /** Claims and runs in progress. */
  readonly #active = new Set<Promise<void>>();
  #claiming = false;
  /** Set when a job may be waiting. */
  #again = false;
  #leaving = false;

  constructor(options: ClaimsOptions) {
    this.#options = options;
    this.#timer = setInterval(() => this.look(), options.everyMs);
  }

  /** Claims waiting jobs now, or after the claim in progress. */
  look(): void {
    this.#again = true;
    if (!this.#claiming) this.#track(this.#claim());
  }

  /** Stops claiming. Resolves once no run is left. */
  async leave(): Promise<void> {
    this.#leaving = true;
    clearInterval(this.#timer);
    while (this.#active.size > 0) await Promise.all(this.#active);
  }

  get #room(): number {
    const { runs, concurrency, ready } = this.#options;
    return this.#leaving || !ready() ? 0 : concurrency - runs.all.length;
  }

  async #claim(): Promise<void> {
    this.#claiming = true;
    try {
      while (this.#again && this.#room > 0) {
        this.#again = false;
        const { runs, more } = await this.#options.runs.claim(this.#room);
        for (const run of runs) this.#track(this.#run(run));
        if (more) this.#again = true;
      }
    } finally {
      this.#claiming = false;
    }
  }

  async #run(run: Run): Promise<void> {
    await this.#options.runs.finish(run);
    // Jobs may be waiting that this worker had no room for.
    if (this.#again) this.look();
  }

  #track(work: Promise<void>): void {
    const tracked = work
      .catch((error: unknown) => this.#options.onError(error as Error))
      .finally(() => this.#active.delete(tracked));
    this.#active.add(tracked);
  }
}
