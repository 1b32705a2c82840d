/** A server, a Redis and workers, as processes: what the faults of the queue are done to. */
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import { QueueWatch } from '../support/queue-look.js';
import { RedisServer } from '../support/redis.js';
import { MINI } from '../support/server-process.js';
import { WorkerProcess } from '../support/worker-process.js';
import { type FaultReport, fault } from './fault.js';
import { goldenQuestions, type Question } from './golden.js';
import { footprint, Subject } from './subject.js';

/** Shorter than the usual 30 s and 5 s, so that the suite does not wait for them. */
export const LOCK_MS = 2_000;
/** How often workers look for jobs of dead workers, at most. */
export const STALLED_MS = LOCK_MS / 6;
export const FAST = ['--lock-duration', `${LOCK_MS}ms`];
/** Few experts fit, so that the workers move some for every job. */
export const SMALL = ['--memory-budget', '20%', '--threads', '1', '--log-level', 'warn'];

type Who = 'worker' | 'server';

interface ClusterOptions {
  /** `sida worker` processes; with 0 the server runs jobs itself. */
  workers?: number;
  /** Further flags of each worker, and of the server. */
  workerFlags?: string[];
  serverFlags?: string[];
  /** Starts the server, or all workers; `start` is called at once. */
  around?: <T>(who: Who, start: () => Promise<T>) => Promise<T>;
  /** Gives the address at which server and workers reach Redis. */
  through?: (redis: RedisServer) => Promise<string>;
}

export class Cluster {
  readonly redis: RedisServer;
  readonly subject: Subject;
  readonly workers: WorkerProcess[];
  readonly golden: Question[];
  readonly told: QueueWatch;
  readonly #workerFlags: string[];
  readonly #descriptors: number;

  private constructor(
    redis: RedisServer,
    subject: Subject,
    workers: WorkerProcess[],
    golden: Question[],
    workerFlags: string[],
  ) {
    this.redis = redis;
    this.subject = subject;
    this.workers = workers;
    this.golden = golden;
    this.told = new QueueWatch(redis.url);
    this.#workerFlags = workerFlags;
    this.#descriptors = Math.max(0, ...workers.map((worker) => footprint(worker.child.pid!).descriptors));
  }

  static async start(options: ClusterOptions = {}): Promise<Cluster> {
    const { workers: count = 2, workerFlags = [], serverFlags = [], through } = options;
    const around = options.around ?? ((_who, start) => start());
    const golden = await goldenQuestions();
    const redis = await RedisServer.start();
    const url = (await through?.(redis)) ?? redis.url;
    const flags = ['--redis', url, '--model', MINI, ...SMALL, ...FAST, ...workerFlags];
    const workers = await around('worker', () =>
      Promise.all(Array.from({ length: count }, () => WorkerProcess.start(flags))),
    );
    const own = count > 0 ? ['--no-worker'] : [...SMALL, ...FAST];
    const subject = await around('server', () => Subject.start('--redis', url, ...own, ...serverFlags));
    return new Cluster(redis, subject, workers, golden, flags);
  }

  /** What a supervisor does when a worker has ended. */
  async replace(at: number): Promise<void> {
    this.workers[at] = await WorkerProcess.start(this.#workerFlags);
  }

  async add(): Promise<void> {
    this.workers.push(await WorkerProcess.start(this.#workerFlags));
  }

  /** The pass line of every fault, for the server and for the workers. */
  async recovered(report: FaultReport): Promise<void> {
    await this.subject.recovered(report);
    for (const { alive, output, child } of this.workers) {
      expect(alive, output).toBe(true);
      expect(output).not.toMatch(/unhandledRejection|uncaughtException|This is a bug/i);
      const now = () => footprint(child.pid!).descriptors;
      for (let tries = 0; tries < 60 && now() > this.#descriptors; tries += 1) await delay(500);
      expect(now(), 'descriptors of a worker').toBeLessThanOrEqual(this.#descriptors);
    }
    expect(this.told.repeated('ended'), 'jobs with two visible results').toBe(0);
  }

  async end(): Promise<void> {
    this.told.end();
    await Promise.all([this.subject.stop(), ...this.workers.map((worker) => worker.stop())]);
    await this.redis.end();
  }
}

/** A fault that is done to a cluster, which must recover. */
export function clusterFault(
  what: string,
  options: ClusterOptions,
  run: (cluster: Cluster, report: FaultReport) => Promise<void>,
): void {
  fault(what, async (report) => {
    const cluster = await Cluster.start(options);
    try {
      await run(cluster, report);
      await cluster.recovered(report);
    } finally {
      await cluster.end();
    }
  });
}
