/** Checks that a Redis is configured so that it loses no accepted job. */
import type { Redis } from 'ioredis';
import type { Logger } from '../../observability/logger.js';
import { redisAddress, workerClient } from './redis-client.js';

interface RedisFault {
  found: string;
  hint: string;
}

interface RedisSettings {
  version: string;
  faults: RedisFault[];
}

export async function redisSettings(client: Redis): Promise<RedisSettings> {
  // Managed services forbid CONFIG but allow INFO.
  const info = fieldsOf(await client.info());
  const faults: RedisFault[] = [];
  if (info.aof_enabled !== '1') {
    faults.push({
      found: 'appendonly is off: accepted jobs are lost when Redis restarts',
      hint: 'CONFIG SET appendonly yes, and appendonly yes in redis.conf (appendfsync everysec)',
    });
  }
  if (info.aof_last_write_status !== undefined && info.aof_last_write_status !== 'ok') {
    faults.push({
      found: 'the append-only file cannot be written',
      hint: "make room on Redis's disk, and look into its log",
    });
  }
  if (info.maxmemory_policy !== 'noeviction') {
    faults.push({
      found: `maxmemory-policy is ${info.maxmemory_policy}: Redis may drop jobs to make room`,
      hint: 'CONFIG SET maxmemory-policy noeviction, and maxmemory-policy noeviction in redis.conf',
    });
  }
  return { version: info.redis_version ?? 'unknown', faults };
}

function fieldsOf(info: string): Record<string, string> {
  return Object.fromEntries(
    info
      .split('\r\n')
      .filter((line) => line.includes(':'))
      .map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)]),
  );
}

/** Logs a warning for each fault once Redis can be reached. Abort the returned controller to end the wait. */
export function warnOfRedisSettings(url: string, logger: Logger): AbortController {
  const client = workerClient(url).on('error', () => undefined);
  const ended = new AbortController();
  ended.signal.addEventListener('abort', () => client.disconnect());
  redisSettings(client)
    .then(({ faults }) => {
      for (const { found, hint } of faults) logger.warn({ hint }, `redis at ${redisAddress(url)}: ${found}`);
    })
    .catch(() => undefined)
    .finally(() => client.disconnect());
  return ended;
}
