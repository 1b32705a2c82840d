/** A rate limit that several servers share through Redis. While Redis is away, each server counts by itself. */
import { readFileSync } from 'node:fs';
import { type RateLimiterAbstract, RateLimiterRedis } from 'rate-limiter-flexible';
import { KEY_PREFIX } from '../../queue/redis/queue-name.js';
import { producerClient } from '../../queue/redis/redis-client.js';
import { MINUTE_S, memoryLimiter } from './token-limit.js';

const CHARGE = readFileSync(new URL('charge.lua', import.meta.url), 'utf8');

export interface SharedLimiter {
  limiter: RateLimiterAbstract;
  close(): void;
}

/**
 * All servers should have the same limit. A server with a different one compares the common count with its own limit.
 */
export function redisLimiter(
  url: string,
  tokensPerMinute: number,
  onError: (error: Error) => void,
): SharedLimiter {
  const client = producerClient(url).on('error', onError);
  const limiter = new RateLimiterRedis({
    storeClient: client,
    keyPrefix: `${KEY_PREFIX}:rate`,
    points: tokensPerMinute,
    duration: MINUTE_S,
    customIncrTtlLuaScript: CHARGE,
    rejectIfRedisNotReady: true,
    insuranceLimiter: memoryLimiter(tokensPerMinute),
  });
  return { limiter, close: () => client.disconnect() };
}
