/**
 * Kills and freezes workers, their engines and Redis at random, from a seed; each is brought back as a supervisor
 * would.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { randomFrom } from '../support/malformed-requests.js';
import type { Cluster } from './cluster.js';

export class Kills {
  readonly counts = new Map<string, number>();
  readonly #cluster: Cluster;
  readonly #random: () => number;
  readonly #end: number;

  constructor(cluster: Cluster, seed: number, seconds: number) {
    this.#cluster = cluster;
    this.#random = randomFrom(seed);
    this.#end = performance.now() + seconds * 1000;
  }

  /** Until the time is over; each victim on its own, so that faults meet. Everything is up again when it resolves. */
  async run(): Promise<void> {
    const { workers } = this.#cluster;
    await Promise.all([
      ...workers.map((_, at) => this.#repeat(4, 16, () => this.#onWorker(at))),
      this.#repeat(8, 30, () => this.#onRedis()),
    ]);
  }

  async #repeat(least: number, most: number, act: () => Promise<void>): Promise<void> {
    for (;;) {
      const pauseMs = 1000 * this.#between(least, most);
      if (performance.now() + pauseMs > this.#end) return;
      await delay(pauseMs);
      await act();
    }
  }

  async #onWorker(at: number): Promise<void> {
    const worker = this.#cluster.workers[at]!;
    const draw = this.#random();
    if (draw < 0.4) {
      this.#count('workers killed');
      await worker.kill();
      await this.#cluster.replace(at);
    } else if (draw < 0.8) {
      const [engine] = worker.enginePids();
      if (engine === undefined) return;
      this.#count('engines killed');
      process.kill(engine, 'SIGKILL');
    } else {
      this.#count('workers frozen');
      worker.child.kill('SIGSTOP');
      await delay(1000 * this.#between(1, 8));
      worker.child.kill('SIGCONT');
    }
  }

  async #onRedis(): Promise<void> {
    const { redis } = this.#cluster;
    const draw = this.#random();
    const awayMs = 1000 * this.#between(0.2, 6);
    if (draw < 0.35) {
      this.#count('Redis frozen');
      redis.freeze();
      await delay(awayMs);
      redis.thaw();
      return;
    }
    const signal = draw < 0.8 ? 'SIGKILL' : 'SIGTERM';
    this.#count(signal === 'SIGKILL' ? 'Redis killed' : 'Redis ended');
    await redis.down(signal);
    await delay(awayMs);
    await redis.up();
  }

  #between(least: number, most: number): number {
    return least + (most - least) * this.#random();
  }

  #count(what: string): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1);
  }
}
