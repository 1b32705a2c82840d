/** Looks into the queues of a test's Redis directly, without servers and workers. */
import { Redis } from 'ioredis';
import { eventually } from './eventually.js';
import type { RedisServer } from './redis.js';

/** Number of jobs in all queues that wait, or that workers have (`active`). */
export function jobsIn(redis: RedisServer, set: 'waiting' | 'active'): Promise<number> {
  return redis.use(async (client) => {
    const count = async (part: string, length: (key: string) => Promise<number>) => {
      const keys = await client.keys(`{sida}:*:${part}`);
      return (await Promise.all(keys.map(length))).reduce((sum, n) => sum + n, 0);
    };
    const list = (part: string) => count(part, (key) => client.llen(key));
    if (set === 'active') return list('active');
    return (await list('wait')) + (await count('prioritized', (key) => client.zcard(key)));
  });
}

/** Resolves when workers run at least `jobs` jobs. */
export function someRun(redis: RedisServer, jobs = 1): Promise<void> {
  return eventually(async () => (await jobsIn(redis, 'active')) >= jobs, `${jobs} runs`);
}

const MEANING: Record<string, 'ended' | 'running'> = {
  completed: 'ended',
  failed: 'ended',
  active: 'running',
};

/** Counts the events of each job. A count is a lower bound, because events may be removed before they are read. */
export class QueueWatch {
  readonly #client: Redis;
  readonly #told = { ended: new Map<string, number>(), running: new Map<string, number>() };
  readonly #last = new Map<string, string>();
  #ended = false;

  constructor(url: string) {
    this.#client = new Redis(url, { retryStrategy: () => 50, maxRetriesPerRequest: null });
    this.#client.on('error', () => undefined);
    void this.#read();
  }

  /**
   * Number of jobs with more than one such event. A second `ended` means a second visible result, a second `running`
   * a second run.
   */
  repeated(what: 'ended' | 'running'): number {
    return [...this.#told[what].values()].filter((count) => count > 1).length;
  }

  end(): void {
    this.#ended = true;
    this.#client.disconnect();
  }

  async #read(): Promise<void> {
    while (!this.#ended) {
      await new Promise((resolve) => setTimeout(resolve, 100));
      await this.#readOnce().catch(() => undefined);
    }
  }

  async #readOnce(): Promise<void> {
    for (const key of await this.#client.keys('{sida}:*:events')) {
      const after = this.#last.get(key);
      const events = await this.#client.xrange(key, after === undefined ? '-' : `(${after}`, '+');
      for (const [id, fields] of events) {
        this.#last.set(key, id);
        const value = (name: string) => fields[fields.indexOf(name) + 1]!;
        const meaning = MEANING[value('event')];
        if (meaning === undefined) continue;
        const counts = this.#told[meaning];
        counts.set(value('jobId'), (counts.get(value('jobId')) ?? 0) + 1);
      }
    }
  }
}
