/** A rate limit that several servers share through Redis. While Redis is away, each server counts by itself. */
import { RateLimiterRedis } from 'rate-limiter-flexible';
import { KEY_PREFIX } from '../../queue/redis/queue-name.js';
import { producerClient } from '../../queue/redis/redis-client.js';
import { type Limiters, MINUTE_S, memoryLimiter, type Unit } from './rate-limit.js';

/**
 * All servers should have the same limits. A server with a different one compares the common count with its own limit.
 * What a server reserved while Redis was away may be returned to the common count, which was never charged. Returns
 * undefined if nothing is limited.
 */
export function redisLimiters(
  url: string,
  perMinute: Record<Unit, number | undefined>,
  onError: (error: Error) => void,
): { limiters: Limiters; close(): void } | undefined {
  if (perMinute.tokens === undefined && perMinute.bytes === undefined) return undefined;
  const client = producerClient(url).on('error', onError);
  const limiterOf = (keyPrefix: string, points: number) =>
    new RateLimiterRedis({
      storeClient: client,
      keyPrefix: `${KEY_PREFIX}:${keyPrefix}`,
      points,
      duration: MINUTE_S,
      rejectIfRedisNotReady: true,
      insuranceLimiter: memoryLimiter(points),
    });
  const limiters: Limiters = {};
  if (perMinute.tokens !== undefined) limiters.tokens = limiterOf('rate', perMinute.tokens);
  if (perMinute.bytes !== undefined) limiters.bytes = limiterOf('rate-bytes', perMinute.bytes);
  return { limiters, close: () => client.disconnect() };
}
