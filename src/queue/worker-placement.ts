/** A worker's part in the choice of workers: what it tells of itself, the jobs it passes on, and those passed on to it. */
import type { Queue, Worker } from 'bullmq';
import type { Redis } from 'ioredis';
import type { EngineHandle } from '../engine/engine-handle.js';
import type { ModelInfo } from '../engine/messages.js';
import type { Logger } from '../observability/logger.js';
import { JobPassing, type PassedJob } from './job-passing.js';
import { JobRouter } from './job-router.js';
import type { JobRuns, Run } from './job-runs.js';
import { PassedEntries } from './passed-entries.js';
import type { PlacementStats } from './placement-stats.js';
import type { RedisLedger } from './redis-ledger.js';
import { WorkerBoard } from './worker-board.js';

export interface WorkerPlacementOptions {
  /** Of the worker. */
  id: string;
  engine: EngineHandle;
  model: ModelInfo;
  client: Redis;
  ledger: RedisLedger;
  runs: JobRuns;
  bullmq: Queue;
  worker: Worker;
  /** Jobs in the engine at a time. */
  concurrency: number;
  lockDurationMs: number;
  logger: Logger;
}

export class WorkerPlacement {
  readonly stats: PlacementStats = { here: 0, passed: 0, returned: 0, received: 0 };
  readonly #options: WorkerPlacementOptions;
  readonly #board: WorkerBoard;
  readonly #passing: JobPassing;
  readonly #router: JobRouter;
  readonly #entries: PassedEntries;
  /** Offers being answered and jobs that came of them. */
  readonly #received = new Map<string, Promise<void>>();
  #leaving = false;

  constructor(options: WorkerPlacementOptions) {
    const { id: worker, engine, model, client, ledger, runs, bullmq, concurrency } = options;
    this.#options = options;
    const { prefix } = ledger;
    const { experts } = model.plan;
    this.#board = new WorkerBoard({
      client,
      prefix,
      worker,
      own: () => {
        const { resident } = engine;
        if (!this.#takesJobs || resident === undefined) return undefined;
        return { experts, resident, load: runs.load, capacity: concurrency };
      },
    });
    this.#passing = new JobPassing({
      client,
      prefix,
      worker,
      onOffer: (id) => this.#onOffer(id),
      onDone: (id) => this.#board.ended(id),
    });
    const { stats } = this;
    const load = () => runs.load;
    this.#router = new JobRouter({ engine, model, board: this.#board, passing: this.#passing, load, stats });
    this.#entries = new PassedEntries(bullmq, options.worker, options.lockDurationMs);
  }

  /** Where messages for this worker come. */
  get channel(): string {
    return this.#passing.channel;
  }

  onMessage(message: string): void {
    this.#passing.onMessage(message);
  }

  /** True: the run, and the lock that `entryToken` is of, are another worker's now. */
  async passOn(run: Run, entryToken: string): Promise<boolean> {
    const { runs } = this.#options;
    const passed = await runs.persist(() => this.#router.passOn(run, entryToken));
    if (passed) runs.forget(run);
    return passed;
  }

  /** Takes no more jobs. Resolves when those it took have ended. */
  async leave(): Promise<void> {
    this.#leaving = true;
    await this.#board.leave();
    await Promise.all(this.#received.values());
  }

  close(): void {
    this.#entries.close();
  }

  get #takesJobs(): boolean {
    return !this.#leaving && this.#options.engine.state.phase === 'ready';
  }

  #onOffer(id: string): void {
    // Told twice.
    if (this.#received.has(id)) return;
    const { runs, concurrency, worker, logger } = this.#options;
    const handled = this.#takesJobs && runs.load < concurrency ? this.#take(id) : this.#passing.refuse(id);
    const received = handled
      // What Redis does not hear is run again, or ended, when the lock runs out.
      .catch((error: unknown) => logger.warn({ job: id, err: error }, 'a job that was passed on'))
      .finally(() => {
        this.#received.delete(id);
        worker.concurrency = this.#room;
      });
    this.#received.set(id, received);
    worker.concurrency = this.#room;
  }

  /** What is left for jobs of BullMQ. */
  get #room(): number {
    return Math.max(1, this.#options.concurrency - this.#received.size);
  }

  async #take(id: string): Promise<void> {
    const job = await this.#passing.take(id);
    if (job === undefined) return;
    this.stats.received += 1;
    await this.#run(job);
  }

  async #run({ id, token, entryToken, begun, from }: PassedJob): Promise<void> {
    const { runs } = this.#options;
    this.#entries.hold(id, entryToken);
    const after = await runs.finish(runs.resume(id, token, begun));
    await Promise.all([this.#entries.end(id, after), this.#passing.done(id, from)]);
  }
}
