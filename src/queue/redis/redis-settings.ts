/** Checks that a Redis is of a kind that can hold the queue, and is configured so that it loses no accepted job. */
import type { Redis } from 'ioredis';
import { SidaError } from '../../errors.js';
import type { Logger } from '../../observability/logger.js';
import { KEY_PREFIX } from './queue-name.js';
import { redisAddress } from './redis-address.js';
import { workerClient } from './redis-client.js';

interface RedisFault {
  found: string;
  hint: string;
}

/** A node of a Redis Cluster that does not have sida's keys. `owner` is the address of the node that has them. */
export class RedisRefused extends SidaError {
  constructor(address: string, owner: string | undefined) {
    const hint =
      owner === undefined ? 'No node has them yet' : `Give the address of the node that has them: ${owner}`;
    super({
      code: 'cannot_run',
      message: `The Redis at ${address} is a node of a Redis Cluster that does not have sida's keys. ${hint}`,
    });
  }
}

/** `address` is for messages. Rejects with RedisRefused when the queue cannot be there. */
export async function redisSettings(
  client: Redis,
  address: string,
): Promise<{ version: string; faults: RedisFault[] }> {
  // Managed services forbid CONFIG but allow INFO.
  const info = await client.info();
  const field = (name: string) => new RegExp(`^${name}:(.*)\\r$`, 'm').exec(info)?.[1];
  await client.exists(KEY_PREFIX).catch((error: Error) => {
    const [kind, , owner] = error.message.split(' ');
    if (kind !== 'MOVED' && kind !== 'CLUSTERDOWN') throw error;
    throw new RedisRefused(address, kind === 'MOVED' ? owner : undefined);
  });
  const faults: RedisFault[] = [];
  if (field('aof_enabled') !== '1') {
    faults.push({
      found: 'appendonly is off: accepted jobs are lost when Redis restarts',
      hint: 'CONFIG SET appendonly yes, and appendonly yes in redis.conf (appendfsync everysec)',
    });
  }
  if ((field('aof_last_write_status') ?? 'ok') !== 'ok') {
    faults.push({
      found: 'the append-only file cannot be written',
      hint: "make room on Redis's disk, and look into its log",
    });
  }
  const policy = field('maxmemory_policy');
  if (policy !== 'noeviction') {
    faults.push({
      found: `maxmemory-policy is ${policy}: Redis may drop jobs to make room`,
      hint: 'CONFIG SET maxmemory-policy noeviction, and maxmemory-policy noeviction in redis.conf',
    });
  }
  return { version: field('redis_version') ?? 'unknown', faults };
}

export interface RedisCheck {
  /** Resolves when Redis was reached and cannot hold the queue. Never resolves otherwise. */
  refused: Promise<RedisRefused>;
  /** Ends the wait for Redis. */
  end(): void;
}

/** Checks Redis once it can be reached, and logs a warning for each fault. */
export function checkRedisSettings(url: string, logger: Logger): RedisCheck {
  const client = workerClient(url).on('error', () => undefined);
  const address = redisAddress(url);
  const refused = new Promise<RedisRefused>((refuse) => {
    redisSettings(client, address)
      .then(({ faults }) => {
        for (const { found, hint } of faults) logger.warn({ hint }, `redis at ${address}: ${found}`);
      })
      .catch((error) => {
        if (error instanceof RedisRefused) refuse(error);
      })
      .finally(() => client.disconnect());
  });
  return { refused, end: () => client.disconnect() };
}
