/** The rate limit of several servers over one Redis: they count together, and each by itself while Redis is away. */
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

/** Its servers have the same limit; one that has another counts what the others use against its own. */
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
