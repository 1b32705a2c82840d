/** Reads the ledgers of a test's Redis directly, without servers and workers. */
import { Redis } from 'ioredis';
import { eventually } from './eventually.js';
import type { RedisServer } from './redis.js';

/** Number of jobs in all ledgers that wait for a run (`queued`), or that run (`leases`). */
export function inLedger(redis: RedisServer, set: 'queued' | 'leases'): Promise<number> {
  return redis.use(async (client) => {
    const keys = await client.keys(`sida:*:ledger:${set}`);
    return (await Promise.all(keys.map((key) => client.zcard(key)))).reduce((sum, n) => sum + n, 0);
  });
}

/** Resolves when workers run at least `jobs` jobs. */
export function someRun(redis: RedisServer, jobs = 1): Promise<void> {
  return eventually(async () => (await inLedger(redis, 'leases')) >= jobs, `${jobs} runs`);
}

/**
 * Counts the events that the ledger publishes for each job. Events during an outage of Redis are missed, so a count
 * is a lower bound.
 */
export class LedgerWatch {
  readonly #client: Redis;
  readonly #told = new Map<string, Map<string, number>>();

  constructor(url: string) {
    this.#client = new Redis(url, { retryStrategy: () => 50, maxRetriesPerRequest: null });
    this.#client.on('error', () => undefined);
    this.#client.psubscribe('sida:*:ledger:events:*').catch(() => undefined);
    this.#client.on('pmessage', (_pattern, channel: string, what: string) => {
      const counts = this.#told.get(what) ?? new Map<string, number>();
      counts.set(channel, (counts.get(channel) ?? 0) + 1);
      this.#told.set(what, counts);
    });
  }

  /**
   * Number of jobs with more than one such event. A second `ended` means a second visible result, a second `running`
   * a second run.
   */
  repeated(what: 'ended' | 'running'): number {
    return [...(this.#told.get(what)?.values() ?? [])].filter((count) => count > 1).length;
  }

  end(): void {
    this.#client.disconnect();
  }
}
