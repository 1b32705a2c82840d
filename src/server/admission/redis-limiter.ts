/** A rate limit that several servers share through Redis. While Redis is away, each server counts by itself. */
import { type RateLimiterAbstract, RateLimiterRedis } from 'rate-limiter-flexible';
import { KEY_PREFIX } from '../../queue/redis/queue-name.js';
import { producerClient } from '../../queue/redis/redis-client.js';
import { MINUTE_S, memoryLimiter } from './token-limit.js';

export interface SharedLimiter {
  limiter: RateLimiterAbstract;
  close(): void;
}

/**
 * All servers should have the same limit. A server with a different one compares the common count with its own limit.
 * Tokens that a server reserved while Redis was away may be returned to the common count, which was never charged.
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
    rejectIfRedisNotReady: true,
    insuranceLimiter: memoryLimiter(tokensPerMinute),
  });
  return { limiter, close: () => client.disconnect() };
}
