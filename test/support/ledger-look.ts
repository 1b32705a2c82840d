/** Looks into the ledgers of a test's Redis, past servers and workers. */
import { Redis } from 'ioredis';
import { eventually } from './eventually.js';
import type { RedisServer } from './redis.js';

/** Jobs of all ledgers that wait for a run, or that run. */
export function inLedger(redis: RedisServer, set: 'queued' | 'leases'): Promise<number> {
  return redis.use(async (client) => {
    const keys = await client.keys(`sida:*:ledger:${set}`);
    return (await Promise.all(keys.map((key) => client.zcard(key)))).reduce((sum, n) => sum + n, 0);
  });
}

/** Resolves once workers run `jobs` of them. */
export function someRun(redis: RedisServer, jobs = 1): Promise<void> {
  return eventually(async () => (await inLedger(redis, 'leases')) >= jobs, `${jobs} runs`);
}

/**
 * Counts what the ledger tells of each job. What it tells while Redis is away is missed, so a count is at least so
 * much.
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
   * Jobs that were told of so more than once: `ended` twice is a second visible result, `running` twice a second run.
   */
  repeated(what: 'ended' | 'running'): number {
    return [...(this.#told.get(what)?.values() ?? [])].filter((count) => count > 1).length;
  }

  end(): void {
    this.#client.disconnect();
  }
}
